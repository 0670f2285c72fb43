/* SPDX-License-Identifier: Apache-2.0
 *
 * main.c: wsctl: finds the verb and hands over.
 * Owns the table of verbs. */
#include <stdio.h>
#include <string.h>

#include "base/code.h"
#include "base/inherit.h"
#include "ctl.h"
#include "filter.h"
#include "options.h"
#include "print.h"
#include "submit-options.h"

static const struct verb verbs[] = {
    {"submit", "[OPTION...] PLUGIN[:FUNCTION] [ARG...]", "Runs one job",
     "PLUGIN is a name that wsd looks up in its plugin directories, or a path with a slash. The output goes to stdout "
     "as\n"
     "it comes, messages go to stderr, and the job's status is the exit code. Long options may also stand directly "
     "behind\n"
     "PLUGIN, unless -- stands before it (for plugins with options of the same names).\n\n",
     verb_submit, true, SUBMIT_ALONE},
    {"map", "[OPTION...] PLUGIN[:FUNCTION] [ARG...] [::: ITEM...]", "Runs one job for each item",
     "Items are the arguments behind :::, else the lines of stdin. {} in an ARG stands for the item; without any {} it "
     "is\n"
     "the last argument. Outputs come in the order of the items. After a failure no more are begun.\n\n"
     "  -j, --jobs N          so many at a time (1000)\n"
     "  -0, --null            items of stdin end in NUL instead, as find -print0 writes them\n"
     "  -u, --unordered       outputs as they come\n"
     "  -k, --keep-going      go on after a failure\n"
     "  -d, --detach          print the id of the batch, and leave when all are accepted; see wsctl await\n"
     "      --json            one object a job, with its item\n",
     verb_map, true, SUBMIT_MAP},
    {"run", "[OPTION...] FILE", "Runs a graph of jobs",
     "FILE (- is stdin) is JSON: {\"nodes\": [{\"name\": \"a\", \"plugin\": \"checksum\", \"args\": [\"x\"]},\n"
     "{\"name\": \"b\", \"plugin\": \"count\", \"after\": [\"a\"]}]}; wsctl(1) has all members of a node. Outputs come "
     "in the\n"
     "order of the file. After a failure the rest is cancelled; what did not run because of another does not count.\n\n"
     "  -d, --output-dir DIR  each output into DIR/NAME instead, when its job has succeeded\n"
     "  -k, --keep-going      after a failure only what runs after it is cancelled\n"
     "      --dot             print the graph in Graphviz's language, and run nothing\n"
     "      --dot-to FILE     write it there when all has ended, with states\n"
     "      --json            one object a node, with its name as `item`\n",
     verb_run},
    {"await", "ID...", "Waits for jobs and gives their output and status",
     "The outputs come in the order of the arguments; the exit code is that of the first that failed. Of a batch all "
     "jobs are\n"
     "waited for; --batch of wsctl list has their ids.\n",
     verb_await},
    {"attach", "ID...", "Follows jobs as they go: output, messages, progress, end",
     "From any terminal, as many as like to. Output comes from its beginning where the job was detached, is durable or "
     "has a "
     "key,\n"
     "else from now on; that of several jobs comes mixed, under headings. Ctrl-C leaves the jobs alone.\n",
     verb_attach},
    {"status", "[--stack] ID", "Tells what is known of a job, or of a batch",
     "      --stack           where it stands now: the stack of each worker that runs a part of it\n", verb_status},
    {"list", "[OPTION...]", "Lists your jobs (who may see all: everybody's), oldest first",
     FILTER_HELP "  -n, --limit N         only the newest so many\n"
                 "  -w, --watch           again and again, until Ctrl-C; where stdout is no terminal, or with --json: "
                 "what has changed\n"
                 "  -d, --delay TIME      between two looks of --watch (1)\n",
     verb_list},
    {"cancel", "ID... | [OPTION...]", "Cancels jobs, by id or by what they are",
     "Of what has not ended, and only what all options together mean; who may cancel all: everybody's.\n\n" FILTER_HELP
     "      --all             whatever it is\n"
     "      --dry-run         only show what would be cancelled\n",
     verb_cancel},
    {"dead", "list | requeue ID... | drop ID...", "Shows durable jobs that are out of retries, and decides on them",
     "They are kept until requeue (queued again, under the same id, as if never tried) or drop (forgotten).\n",
     verb_dead},
    {"schedule", "add NAME --on WHEN [OPTION...] PLUGIN[:FUNCTION] [ARG...] | list | remove NAME | run NAME",
     "Has wsd submit a job again and again",
     "WHEN is a calendar expression of systemd.time(7): 'Mon..Fri 08:00', '*:0/15', daily, 'Sun 03:00 Europe/Berlin'. "
     "What is\n"
     "added is kept on disk, and runs with your rights until it is removed; run does it now, and prints the job's id. "
     "A run that\n"
     "comes due while the one before is not done is skipped, and counted.\n\n"
     "      --on WHEN         when\n"
     "      --persistent      runs missed while wsd was not there: one at its start\n",
     verb_schedule, true, SUBMIT_SCHEDULE},
    {"plugin", "list | show NAME | reload NAME | release NAME[:FUNCTION]",
     "Tells which plugins and functions there are",
     "reload loads the plugin's file now: new jobs get it, those before end on the old one, which also stays in use "
     "where "
     "the\n"
     "new file cannot be loaded.\n"
     "release lets a function that has crashed again and again out of quarantine.\n",
     verb_plugin},
    {"runner", "list | show NAME", "Tells which runners are connected, and what they do",
     "Runners are programs that take the jobs of a name: those of yours, and those that serve all users.\n",
     verb_runner},
    {"fleet", "init | status [OPTION...]", "Sets up many machines, and tells how they are",
     "init makes the streams on the servers of NATS; status tells what waits, and what machines have. The options are "
     "those of\n"
     "wsd-fleet(8): --servers URL,... names the servers. Jobs go to other machines as @fleet/PLUGIN.\n",
     verb_fleet, true},
    {"web", "[OPTION...]", "Shows wsd as a page in the browser",
     "Runs until it is ended, prints the page's address, and opens it. Only who knows the address is let in.\n\n"
     "  -l, --listen WHERE  ADDRESS:PORT of this machine, port 0: any (127.0.0.1:0)\n"
     "      --fleet[=URL,...]  shows the other machines, too, by these servers of NATS\n"
     "      --no-open       opens no browser\n"
     "      --read-only     jobs cannot be cancelled from the page, and the like\n",
     verb_web},
    {"ping", "", "Asks whether wsd is there", "", verb_ping},
    {"bench", "[OPTION...] [PLUGIN[:FUNCTION] [ARG...]]", "Measures how quickly wsd serves jobs",
     "Of a function that does nothing (fib:nothing), or of yours: time from submit to end, and jobs a second.\n\n"
     "  -c, --connections N   so many connections (1)\n"
     "  -f, --in-flight N     so many jobs at a time on each (1: each waits for the one before)\n"
     "  -n, --count N         end after so many jobs\n"
     "  -s, --seconds TIME    end after this time: 30, 1.5s, 500ms, 2min (5, unless -n says when)\n"
     "      --size BYTES      so much input for each job (0)\n",
     verb_bench, true},
    {"stats", "[OPTION...] [PLUGIN[:FUNCTION]...]", "Shows wsd's counters, or those of functions",
     "Of a function: how its jobs have ended, and how long they waited and ran, since wsd's start. Yours; "
     "administrators:\n"
     "of all users.\n\n"
     "  -f, --functions       one line a function, of all of them\n"
     "      --user USER       of this user: a name or a number\n"
     "  -s, --sort KEY        lines by run (time of all jobs), jobs, p99 (of the run time), bad (not succeeded) or "
     "name "
     "(run)\n",
     verb_stats},
    {"workers", "[-e | set N]", "Shows what each worker has done; set changes their number",
     "One line a worker of your executor (administrators: of all): counters since the executor's "
     "start.\n"
     "  -e, --executors  one line an executor instead: its process, age, memory and descriptors\n"
     "set N gives every executor N workers, 1 to 1024, present ones at once; for administrators.\n",
     verb_workers},
    {"top", "[OPTION...]", "Shows what wsd does, as it does it",
     "Jobs a second, executors and how busy their workers are, users, what is paused or limited, and jobs.\n"
     "Keys: q quits, f shows functions or jobs, s sorts by something else, space stops and goes on.\n\n"
     "  -d, --delay TIME      between two looks: 30, 1.5s, 500ms, 2min (2)\n"
     "  -n, --iterations N    end after so many\n"
     "  -b, --batch           plain text, without a terminal\n"
     "  -f, --functions       functions in place of users and jobs: rates, times, and how they went lately\n"
     "  -s, --sort KEY        jobs by run (time), cpu (time) or new (newest first) (run)\n"
     "  -r, --rows N          with --batch and --json: so many jobs (20)\n"
     "      --json            one object for each look\n",
     verb_top},
    {"trace", "[OPTION...]", "Records what wsd and the workers do, for chrome://tracing or ui.perfetto.dev",
     "Of your executor (administrators: of all), for a second or until Ctrl-C.\n\n"
     "  -s, --seconds TIME    how long: 30, 1.5s, 500ms, 2min (1)\n"
     "  -o, --output FILE     where it goes (wsd-trace.json); - is stdout\n"
     "      --otlp FILE       spans of the jobs, too, as JSON lines for OpenTelemetry\n"
     "      --job ID          only this job and its tasks, until it has ended\n"
     "      --start           begin, and leave it running\n"
     "      --stop            end what --start began, and write it\n",
     verb_trace},
    {"profile", "[OPTION...] [PLUGIN[:FUNCTION] [ARG...]]",
     "Shows where functions spend their CPU time, as a flame graph",
     "Samples the workers of your executor (administrators: of all), for ten seconds or until Ctrl-C, and keeps what "
     "was "
     "in\n"
     "that plugin or function.\n\n"
     "  -s, --seconds TIME    how long: 30, 1.5s, 500ms, 2min (10)\n"
     "  -r, --rate HZ         samples in a second of CPU time, 1 to 999 (99)\n"
     "  -o, --output FILE     where it goes (wsd-profile.svg); - is stdout\n"
     "      --folded          stacks as lines of text, for other programs (to stdout)\n"
     "      --pprof           for pprof (wsd-profile.pb.gz)\n"
     "      --json            the functions with most samples; a file only with -o\n"
     "      --parallelism     runs one job in wsctl itself, and tells its work and span\n"
     "      --scale           runs one job in wsctl itself on 1, 2, .. workers, and draws its speed (wsd-scale.svg)\n"
     "      --workers N       --scale: up to so many; --parallelism: as if on so many (as many as CPUs)\n",
     verb_profile, true},
    {"pause", "[PLUGIN[:FUNCTION] | --tag TAG]", "Keeps jobs from running",
     "Of a function, a plugin, or everything: jobs are accepted and wait until `wsctl resume`; those that run go on. "
     "Others do "
     "not\n"
     "wait behind them. For administrators, as are resume, drain and limit.\n\n"
     "  -t, --tag TAG         all jobs with this tag\n",
     verb_pause},
    {"resume", "[PLUGIN[:FUNCTION] | --tag TAG]", "Ends a pause; without an argument also a drain",
     "  -t, --tag TAG         of all jobs with this tag\n", verb_resume},
    {"drain", "[--no-wait]", "Refuses new jobs, and waits for those that are there",
     "`wsctl resume` ends it. What waits at a pause is waited for.\n\n"
     "  -n, --no-wait         refuse new jobs, and return at once\n",
     verb_drain},
    {"limit", "[PLUGIN[:FUNCTION] N|none | --tag TAG N|none]", "Lets only so many jobs run at once",
     "Of all users together; those above it wait. Without arguments: shows what is limited, paused and drained.\n"
     "It lasts until wsd ends: `[plugin NAME]` and `[tag NAME]` `max-running` in wsd.conf are for good.\n\n"
     "  -t, --tag TAG         all jobs with this tag\n",
     verb_limit},
    {"limits", "[--user USER] [KEY=VALUE...]", "Shows the limits of wsd.conf in force, or moves them",
     "KEY= takes one back. What is moved holds until the configuration is read again, or wsd ends.\n\n"
     "      --user USER       of this user alone, a name or a number: keys that end with -per-user\n",
     verb_limits},
    {"actions", "[--limit N]", "Shows who has changed something in wsd of late",
     "The last actions of administrators, those that were refused, too, and what a service did for a person whom it "
     "names.\n"
     "Oldest first; wsd keeps them until it ends. Yours; administrators, and who may see or watch all jobs: "
     "everybody's.\n\n"
     "  -n, --limit N         only the newest so many\n",
     verb_actions},
    {"version", "", "Tells the versions of wsctl, library and daemon", "", verb_version},
    {"complete", "[WORD...]", NULL, "", verb_complete, true},
};

#define N_VERBS (sizeof(verbs) / sizeof(*verbs))

const struct verb *ctl_verb_at(size_t index)
{
    return index < N_VERBS ? &verbs[index] : NULL;
}

const struct verb *ctl_verb(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

static int help(void)
{
    printf("usage: wsctl [OPTION...] VERB [ARGUMENT...]\n\nHands work to wsd, the resident pool of this machine.\n\n");
    for (size_t i = 0; i < N_VERBS; i++)
        if (verbs[i].help)
            printf("  %-8s  %s\n", verbs[i].name, verbs[i].help);
    printf(
        "\n%s\n"
        "Exit codes: 0 done; 1-63 the job's own; 64 usage; 66 not found; 69 no daemon; 70 crashed; 74 I/O; 75 refused\n"
        "for now; 76 protocol; 77 not permitted; 124 timed out; 125 interrupted; 130 cancelled.\n",
        ctl_common_help);
    return print_end();
}

int main(int argc, char **argv)
{
    struct ctl ctl = {.verb = NULL};
    char error[INHERIT_ERROR];
    int c, r;

    if (inherit_begin(INHERIT_TOOL, error) < 0)
        return ctl_error(CODE_IO, "cannot start", "%s", error);
    c = ctl_getopt(&ctl, argc, argv, "", NULL, &r);
    if (c != CTL_END)
        return c == CTL_EXIT ? r : help();
    if (optind == argc)
        return ctl_error(CODE_USAGE, "no verb", "see wsctl --help");
    if (strcmp(argv[optind], "help") == 0 && optind + 1 == argc)
        return help();
    if (strcmp(argv[optind], "help") == 0 && (ctl.verb = ctl_verb(argv[optind + 1]))) {
        ctl_help(ctl.verb);
        return print_end();
    }
    ctl.verb = ctl_verb(argv[optind]);
    if (!ctl.verb)
        return ctl_error(CODE_USAGE, argv[optind], "no such verb; see wsctl --help");
    argc -= optind;
    argv += optind;
    optind = 0; /* glibc: begin anew */
    return ctl.verb->run(&ctl, argc, argv);
}
