/* SPDX-License-Identifier: Apache-2.0
 *
 * test-layout.c: what binaries of plugins have compiled into them. Red at compile time.
 *
 * Where an assertion here fails, the engine has moved what existing plugins read and write at the old place. Put it
 * back; append instead, at the end or in reserved words, raise WSD_PLUGIN_ABI, and add lines for it here. What may grow
 * is at least as large as here; what lies in a plugin's memory is exactly so large. */
#include <stddef.h>

#include <check.h>

#include <wsd/forms.h>
#include <wsd/future.h>
#include <wsd/graph.h>
#include <wsd/plugin.h>
#include <wsd/task.h>

#include "pool/ops.h"
#include "pool/worker.h"
#include "tests/unit/suite.h"

#define AT(type, field, offset)                                                                                        \
    _Static_assert(offsetof(struct type, field) == (offset),                                                           \
                   "struct " #type "." #field " has moved: see the top of this file")
#define EXACTLY(type, size)                                                                                            \
    _Static_assert(sizeof(struct type) == (size), "struct " #type " has another size: see the top of this file")
#define AT_LEAST(type, size)                                                                                           \
    _Static_assert(sizeof(struct type) >= (size), "struct " #type " has shrunk: see the top of this file")

#if __SIZEOF_POINTER__ == 8

/* wsd/task.h. Made by the macros, read by the engine: of this size for ever. */
AT(wsd_task_type, run, 0);
AT(wsd_task_type, size, 8);
AT(wsd_task_type, result_size, 12);
EXACTLY(wsd_task_type, 16);

/* wsd/task.h. One word before the data of each task, for ever. */
AT(wsd_task, word, 0);
EXACTLY(wsd_task, 8);

/* wsd/task.h. The macros read and write these; what stands behind `own` may be appended. */
AT(wsd_worker, size, 0);
AT(wsd_worker, index, 4);
AT(wsd_worker, top, 8);
AT(wsd_worker, hi, 16);
AT(wsd_worker, lo, 24);
AT(wsd_worker, ops, 32);
AT(wsd_worker, context, 40);
AT(wsd_worker, level, 48);
AT(wsd_worker, refuse, 56);
AT(wsd_worker, done, 64);
AT(wsd_worker, inside, 72);
AT(wsd_worker, own, 76);
AT_LEAST(wsd_worker, 80);

/* wsd/task.h. Called by the macros, and by other languages. Entries are appended. */
AT(wsd_task_ops, size, 0);
AT(wsd_task_ops, reserved, 4);
AT(wsd_task_ops, spawn, 8);
AT(wsd_task_ops, sync, 16);
AT(wsd_task_ops, lower, 24);
AT(wsd_task_ops, for_range, 32);
AT(wsd_task_ops, spawn_word, 40);
AT(wsd_task_ops, sync_word, 48);
AT(wsd_task_ops, blocking_begin, 56);
AT(wsd_task_ops, blocking_end, 64);
AT(wsd_task_ops, future_begin, 72);
AT(wsd_task_ops, future_start, 80);
AT(wsd_task_ops, future_set, 88);
AT(wsd_task_ops, future_wait, 96);
AT(wsd_task_ops, future_done, 104);
AT(wsd_task_ops, future_help, 112);
AT(wsd_task_ops, group_begin, 120);
AT(wsd_task_ops, group_spawn, 128);
AT(wsd_task_ops, group_end, 136);
AT(wsd_task_ops, group_cancel, 144);
AT(wsd_task_ops, group_cancelled, 152);
AT(wsd_task_ops, for_each, 160);
AT(wsd_task_ops, reduce, 168);
AT(wsd_task_ops, scan, 176);
AT(wsd_task_ops, sort, 184);
AT(wsd_task_ops, find_first, 192);
AT(wsd_task_ops, pipeline, 200);
AT(wsd_task_ops, graph_new, 208);
AT(wsd_task_ops, graph_free, 216);
AT(wsd_task_ops, graph_add, 224);
AT(wsd_task_ops, graph_precede, 232);
AT(wsd_task_ops, graph_run, 240);
AT(wsd_task_ops, graph_cancel, 248);
AT(wsd_task_ops, graph_dump, 256);
AT_LEAST(wsd_task_ops, 264);

/* wsd/graph.h. What the inline functions read of what the engine makes. */
AT(wsd_graph, ops, 0);
AT(wsd_node, graph, 0);

/* wsd/future.h. In the plugin's own memory: of this size for ever; the engine's parts are in `reserved`. */
AT(wsd_future, ops, 0);
AT(wsd_future, reserved, 8);
EXACTLY(wsd_future, 128);

/* wsd/forms.h. In the plugin's own memory: of this size for ever. wsd_group_cancelled() reads some. */
AT(wsd_group, spawned, 0);
AT(wsd_group, owner, 8);
AT(wsd_group, reserved_owner, 16);
AT(wsd_group, parent, 64);
AT(wsd_group, ops, 72);
AT(wsd_group, error, 80);
AT(wsd_group, cancelled, 84);
AT(wsd_group, reserved, 88);
EXACTLY(wsd_group, 128);

/* wsd/forms.h. The plugin's: of this size for ever; new fields are taken from `reserved`. */
AT(wsd_reduction, size, 0);
AT(wsd_reduction, identity, 8);
AT(wsd_reduction, init, 16);
AT(wsd_reduction, body, 24);
AT(wsd_reduction, combine, 32);
AT(wsd_reduction, fini, 40);
AT(wsd_reduction, arg, 48);
AT(wsd_reduction, reserved, 56);
EXACTLY(wsd_reduction, 88);

/* wsd/forms.h. The same. */
AT(wsd_scan_args, in, 0);
AT(wsd_scan_args, out, 8);
AT(wsd_scan_args, count, 16);
AT(wsd_scan_args, size, 24);
AT(wsd_scan_args, grain, 32);
AT(wsd_scan_args, kind, 40);
AT(wsd_scan_args, initial, 48);
AT(wsd_scan_args, combine, 56);
AT(wsd_scan_args, arg, 64);
AT(wsd_scan_args, ret_total, 72);
AT(wsd_scan_args, reserved, 80);
EXACTLY(wsd_scan_args, 112);

/* wsd/forms.h. The same, and it stands in arrays. */
AT(wsd_stage, run, 0);
AT(wsd_stage, arg, 8);
AT(wsd_stage, kind, 16);
AT(wsd_stage, reserved, 24);
EXACTLY(wsd_stage, 56);

/* wsd/plugin.h. Read by hosts; says its size itself, so fields are appended. */
AT(wsd_plugin, size, 0);
AT(wsd_plugin, abi, 4);
AT(wsd_plugin, function_size, 8);
AT(wsd_plugin, n_functions, 12);
AT(wsd_plugin, functions, 16);
AT(wsd_plugin, name, 24);
AT(wsd_plugin, version, 32);
AT(wsd_plugin, help, 40);
AT(wsd_plugin, init, 48);
AT(wsd_plugin, fini, 56);
AT(wsd_plugin, worker_start, 64);
AT(wsd_plugin, worker_stop, 72);
AT_LEAST(wsd_plugin, 80);

/* wsd/plugin.h. The same, by function_size of wsd_plugin. */
AT(wsd_function, name, 0);
AT(wsd_function, help, 8);
AT(wsd_function, flags, 16);
AT(wsd_function, run, 24);
AT_LEAST(wsd_function, 32);

/* wsd/plugin.h. Written by hosts; fields are appended. */
AT(wsd_job, size, 0);
AT(wsd_job, argc, 4);
AT(wsd_job, argv, 8);
AT(wsd_job, input, 16);
AT(wsd_job, input_size, 24);
AT(wsd_job, deadline_usec, 32);
AT(wsd_job, id, 40);
AT(wsd_job, ops, 56);
AT_LEAST(wsd_job, 64);

/* wsd/plugin.h. Entries are appended. */
AT(wsd_job_ops, size, 0);
AT(wsd_job_ops, reserve, 8);
AT(wsd_job_ops, commit, 16);
AT(wsd_job_ops, write, 24);
AT(wsd_job_ops, flush, 32);
AT(wsd_job_ops, read, 40);
AT(wsd_job_ops, open, 48);
AT(wsd_job_ops, directory, 56);
AT(wsd_job_ops, cancelled, 64);
AT(wsd_job_ops, progress, 72);
AT(wsd_job_ops, vlog, 80);
AT(wsd_job_ops, verror, 88);
AT(wsd_job_ops, vstatus, 96);
AT(wsd_job_ops, vprint, 104);
AT(wsd_job_ops, command, 112);
AT(wsd_job_ops, traceparent, 120);
AT_LEAST(wsd_job_ops, 128);

/* wsd/plugin.h. Read from the file by hosts, before it is loaded. */
AT(wsd_abi_note_, name_size, 0);
AT(wsd_abi_note_, desc_size, 4);
AT(wsd_abi_note_, type, 8);
AT(wsd_abi_note_, name, 12);
AT(wsd_abi_note_, abi, 16);
EXACTLY(wsd_abi_note_, 20);

/* wsd/task.h. What wsd_spawn() puts into a slot and reads back after a sync. */
AT(wsd_plain_, fn, 0);
AT(wsd_plain_, arg, 8);
EXACTLY(wsd_plain_, 16);

#endif

/* What macros and inline functions decide by themselves. */
_Static_assert(WSD_TASK_DATA == 48 && WSD_TASK_ALIGN == 8, "slots of old binaries are as large as this");
_Static_assert(WSD_SLOT_(char) == 16 && WSD_SLOT_(char[9]) == 24 && WSD_SLOT_(char[48]) == 56, "and laid out so");
_Static_assert(WSD_FN_IDEMPOTENT == 1 && WSD_FN_STREAMING == 2 && WSD_FN_OPT_IN == 4, "flags keep their values");
_Static_assert(WSD_LOG_ERROR == 3 && WSD_LOG_WARNING == 4 && WSD_LOG_INFO == 6 && WSD_LOG_DEBUG == 7, "so do levels");
_Static_assert(WSD_SCAN_INCLUSIVE == 0 && WSD_SCAN_EXCLUSIVE == 1, "and kinds");
_Static_assert(WSD_STAGE_PARALLEL == 0 && WSD_STAGE_ORDERED == 1 && WSD_STAGE_SERIAL == 2, "of both");
_Static_assert(WSD_STATUS_MAX >= 63 && WSD_RESERVE_MAX >= 1024 * 1024, "limits may be raised, not lowered");
_Static_assert(WSD_STAGES_MAX >= 64 && WSD_TOKENS_MAX >= 65536, "these too");
_Static_assert(WSD_NODE_WORK == 0 && WSD_NODE_CONDITION == 1 && WSD_NODE_GRAPH == 2, "kinds of nodes");
_Static_assert(WSD_ABI_NOTE_TYPE == 1, "the note is found by it");
_Static_assert(WSD_PLUGIN_ABI == 1, "a new number: new source and binaries in tests/abi, and lines for what came");

/* The table says how much of it there is, and all of it is filled. */
START_TEST(the_table_is_whole)
{
    void (*const *entry)(void) = (void (*const *)(void))(const void *)((const char *)&worker_ops + 8);

    ck_assert_uint_eq(worker_ops.size, sizeof(struct wsd_task_ops));
    for (size_t i = 0; i < (sizeof(struct wsd_task_ops) - 8) / sizeof(*entry); i++)
        ck_assert_msg(entry[i], "entry %zu of struct wsd_task_ops is NULL", i);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("layout");
    TCase *t = tcase_create("layout");

    tcase_add_test(t, the_table_is_whole);
    suite_add_tcase(s, t);
    return run_suite(s);
}
