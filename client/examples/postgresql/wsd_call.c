/* SPDX-License-Identifier: Apache-2.0
 *
 * wsd_call.c: jobs of wsd as an SQL function, for PostgreSQL 13 and later (tested with 15).
 *
 *     make && make install                                    (pg_config and pkg-config wsclient are needed)
 *     CREATE EXTENSION wsd_call;
 *     SELECT wsd_call('compress', 'text'::bytea);             the plugin's main function, with this input
 *     SELECT wsd_call('fib', '', '20');                       with arguments behind the input
 *     SELECT wsd_call_small('mine', 'text'::bytea);           the same by a direct lane: at most 2,048 bytes come back
 *     GRANT EXECUTE ON FUNCTION wsd_call TO someone;          see wsd_call--1.0.sql for what that allows
 *
 * Each backend opens a handle at its first call and keeps it. The postmaster, which forks the backends, makes no call:
 * no handle is ever in two processes. wsd is that of WSD_SOCKET in the server's environment, or the system's. It sees
 * all users of the database as the one user of the server. A transaction that is rolled back does not undo a job. */
#include <postgres.h>

#include <catalog/pg_type.h>
#include <errno.h>
#include <fmgr.h>
#include <miscadmin.h>
#include <utils/array.h>
#include <utils/builtins.h>
#include <wsd/client.h>

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(wsd_call_sql);
PG_FUNCTION_INFO_V1(wsd_call_small_sql);

#define SMALL 2048 /* bytes of output that a direct lane has room for */

static struct wsd_client *client; /* of this backend; not connected where it could not open */
static bool thrown;               /* PostgreSQL has an error for us, on its stack of errors */

/* Asked each 20 ms, and after each signal, while the library waits. A cancel, a timeout or the end of the server is an
 * error. It must not jump over the library, so it waits here until the library has cancelled the job and returned. All
 * else that PostgreSQL wants of a backend is done here, and the wait goes on. */
static int interrupted(void *userdata)
{
    MemoryContext context = CurrentMemoryContext;

    PG_TRY();
    {
        CHECK_FOR_INTERRUPTS();
    }
    PG_CATCH();
    {
        MemoryContextSwitchTo(context);
        thrown = true;
    }
    PG_END_TRY();
    return thrown;
}

/* Connects where there is no connection, and calls. A job that may have run is not called again. */
static int call(const struct wsd_call_request *request, struct wsd_call_result *result)
{
    const struct wsd_open how = {.size = sizeof(how), .interrupted = interrupted};
    int r = client ? 0 : wsd_client_open_with(&client, &how);

    if (r == 0)
        r = wsd_call(client, request, result);
    if (r == -ECONNRESET && wsd_client_exit(client) != 125 && (r = wsd_client_reconnect(client, 0)) == 0)
        r = wsd_call(client, request, result);
    if (thrown) {
        thrown = false;
        PG_RE_THROW();
    }
    return r;
}

/* small: its output has room here, so that it may go by a direct lane. Else it has any size, and goes by the socket.
 * Where the room is too small, the job has run in vain (-EMSGSIZE), and calling it again would run it twice. */
static Datum answer(PG_FUNCTION_ARGS, bool small)
{
    char *plugin = text_to_cstring(PG_GETARG_TEXT_PP(0)), *colon = strrchr(plugin, ':');
    bytea *input = PG_GETARG_BYTEA_PP(1), *output = small ? palloc(SMALL + VARHDRSZ) : NULL;
    Datum *args;
    bool *nulls;
    int n_args;

    if (colon && !strchr(colon, '/')) /* else it belongs to a path */
        *colon++ = '\0';
    else
        colon = NULL;
    deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), TEXTOID, -1, false, TYPALIGN_INT, &args, &nulls, &n_args);

    const char **words = palloc(((size_t)n_args + 1) * sizeof(*words));

    for (int i = 0; i < n_args; i++) {
        if (nulls[i])
            ereport(ERROR, errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("argument %d of the job is null", i + 1));
        words[i] = TextDatumGetCString(args[i]);
    }

    const struct wsd_call_request request = {.size = sizeof(request),
                                             .plugin = plugin,
                                             .function = colon,
                                             .args = words,
                                             .n_args = (size_t)n_args,
                                             .input = VARDATA_ANY(input),
                                             .input_size = VARSIZE_ANY_EXHDR(input),
                                             .output = small ? VARDATA(output) : NULL,
                                             .output_room = small ? SMALL : 0,
                                             .flags = small ? 0 : WSD_CALL_GROW};
    struct wsd_call_result result = {.size = sizeof(result)};

    if (call(&request, &result) < 0)
        ereport(ERROR, errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
                errmsg("wsd: %s: %s", plugin, wsd_client_error(client)),
                wsd_client_exit(client) == 125 ? errdetail("The job may have run.") : 0);
    /* The output is memory of the library, which PostgreSQL does not free at an error. palloc() refuses 1 GB and
     * more. */
    PG_TRY();
    {
        if (result.state != WSD_JOB_SUCCEEDED)
            ereport(ERROR, errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
                    errmsg("wsd: %s: the job has %s, exit %d: %s", plugin, wsd_job_state_name(result.state),
                           result.exit, result.error));
        if (!small)
            output = palloc(result.output_size + VARHDRSZ);
        SET_VARSIZE(output, result.output_size + VARHDRSZ);
        if (result.output)
            memcpy(VARDATA(output), result.output, result.output_size);
    }
    PG_FINALLY();
    {
        free(result.output);
    }
    PG_END_TRY();
    PG_RETURN_BYTEA_P(output);
}

Datum wsd_call_sql(PG_FUNCTION_ARGS)
{
    return answer(fcinfo, false);
}

Datum wsd_call_small_sql(PG_FUNCTION_ARGS)
{
    return answer(fcinfo, true);
}
