/* SPDX-License-Identifier: Apache-2.0
 *
 * ngx_http_wsd_module.c: a location of nginx that answers with the output of a job.
 *
 *     env WSD_SOCKET;                    # of the environment, if wsd is not at its usual place
 *     load_module modules/ngx_http_wsd_module.so;
 *     http {
 *         wsd_calls 256;                 # open at once in each worker process; more get 503
 *         server {
 *             location /fib {
 *                 wsd fib;               # PLUGIN[:FUNCTION]
 *                 wsd_timeout 5s;        # then 504, and the job is cancelled; 60s if it is not said
 *                 wsd_output 2k;         # no answer is larger (else 502): the job may go by the direct lane
 *             }
 *         }
 *     }
 *
 * The body of a request is the input of the job, and its query string is the one argument. 502: the job failed, and
 * nginx's log has the error text. 503: too many calls, or wsd is not there. The job of a client that goes away is
 * cancelled.
 *
 * Each worker process has one handle, in its event loop. To build it with nginx-dev of Debian:
 *
 *     cp -r /usr/share/nginx/src . && cd src
 *     ./configure --with-compat --with-threads --add-dynamic-module=DIRECTORY && make -f objs/Makefile modules */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <poll.h>
#include <wsd/client.h>

struct main_conf {
    ngx_uint_t calls;
};

struct location {
    char *plugin, *function;
    ngx_msec_t timeout;
    size_t output; /* 0: of any size */
};

extern ngx_module_t ngx_http_wsd_module;

static struct wsd_client *client;
static ngx_connection_t *watched;                           /* the handle's descriptor; NULL: there is none */
static ngx_event_t timer, turn;                             /* the handle's timeout; the end of this turn */
static ngx_connection_t nothing = {.fd = (ngx_socket_t)-1}; /* for their lines in nginx's debug log */

/* --- the handle in nginx's loop ------------------------------------------------------------------------------- */

/* Level-triggered, since the library may leave bytes in the socket. */
static void want(ngx_event_t *event, ngx_int_t what, int wanted)
{
    if (wanted && !event->active)
        ngx_add_event(event, what, NGX_LEVEL_EVENT);
    else if (!wanted && event->active)
        ngx_del_event(event, what, 0);
}

static void unpost(ngx_event_t *event)
{
    if (event->posted) { /* what follows is a macro of two statements */
        ngx_delete_posted_event(event);
    }
}

static void unwatch(void)
{
    if (!watched)
        return;
    want(watched->read, NGX_READ_EVENT, 0);
    want(watched->write, NGX_WRITE_EVENT, 0);
    unpost(watched->read);
    unpost(watched->write);
    ngx_free_connection(watched);
    watched->fd = (ngx_socket_t)-1;
    watched = NULL;
}

static void on_event(ngx_event_t *event);

/* Watches what the handle wants watched. If nginx has no free connection, it tries again later. */
static void arm(void)
{
    uint64_t usec = wsd_client_timeout_usec(client);
    short events = wsd_client_events(client);
    int fd = wsd_client_fd(client);

    if (fd >= 0 && !watched && (watched = ngx_get_connection(fd, ngx_cycle->log))) {
        watched->log = watched->read->log = watched->write->log = ngx_cycle->log;
        watched->read->handler = watched->write->handler = on_event;
    }
    if (watched) {
        want(watched->read, NGX_READ_EVENT, events & POLLIN);
        want(watched->write, NGX_WRITE_EVENT, events & POLLOUT);
    } else if (fd >= 0 && usec > 100000) {
        usec = 100000;
    }
    if (timer.timer_set)
        ngx_del_timer(&timer);
    timer.cancelable = wsd_client_open_calls(client) == 0; /* a worker that is to end waits for its calls alone */
    if (usec != UINT64_MAX)
        ngx_add_timer(&timer, (ngx_msec_t)(usec / 1000 + 1));
}

/* Of the descriptor and the timer: makes the callbacks. Of the turn: sends what was submitted in it. */
static void on_event(ngx_event_t *event)
{
    if (event == &turn)
        wsd_client_flush(client);
    else
        wsd_client_process(client);
    unpost(&turn);
    arm();
}

static void on_watch(int fd, short events, uint64_t timeout_usec, void *userdata)
{
    if (fd >= 0 && !events)
        unwatch(); /* the library closes it */
    ngx_post_event(&turn, &ngx_posted_events);
}

static ngx_int_t init_process(ngx_cycle_t *cycle)
{
    struct main_conf *conf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_wsd_module);
    const struct wsd_open how = {.size = sizeof(how), .flags = WSD_OPEN_AGAIN};

    if (!conf || (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE))
        return NGX_OK;
    timer.handler = turn.handler = on_event;
    timer.log = turn.log = cycle->log;
    timer.data = turn.data = &nothing;
    if (wsd_client_open_with(&client, &how) < 0 || wsd_client_set_bounds(client, 0, conf->calls, NULL, NULL) < 0 ||
        wsd_client_set_watch(client, on_watch, NULL) < 0) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0, "wsd: %s", client ? wsd_client_error(client) : "no memory");
        return NGX_ERROR;
    }
    on_event(&turn);
    return NGX_OK;
}

static void exit_process(ngx_cycle_t *cycle)
{
    if (!client)
        return;
    wsd_client_set_watch(client, NULL, NULL);
    unwatch();
    unpost(&turn);
    if (timer.timer_set)
        ngx_del_timer(&timer);
    client = wsd_client_free(client);
}

/* --- a request: its context is the call, as long as that is open ------------------------------------------------ */

static void log_failure(ngx_http_request_t *r, const char *text)
{
    const struct location *location = ngx_http_get_module_loc_conf(r, ngx_http_wsd_module);

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "wsd: %s: %s", location->plugin, text);
}

/* The call has ended, or the client has gone away. */
static void on_cleanup(void *data)
{
    ngx_http_request_t *r = data;

    wsd_call_free(ngx_http_get_module_ctx(r, ngx_http_wsd_module));
    ngx_http_set_ctx(r, NULL, ngx_http_wsd_module);
}

/* The output belongs to the request from here on. */
static ngx_int_t answer(ngx_http_request_t *r, struct wsd_call *call)
{
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, 0);
    ngx_buf_t *b = ngx_calloc_buf(r->pool);
    ngx_chain_t out = {.buf = b};
    size_t size;
    ngx_int_t rc;

    if (!cleanup || !b)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    b->pos = wsd_call_take_output(call, &size);
    if (!b->pos && size > 0)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    cleanup->handler = free;
    cleanup->data = b->pos;
    b->last = b->pos + size;
    b->memory = size > 0;
    b->last_buf = r == r->main;
    b->last_in_chain = 1;

    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = (off_t)size;
    rc = ngx_http_set_content_type(r) == NGX_OK ? ngx_http_send_header(r) : NGX_HTTP_INTERNAL_SERVER_ERROR;
    return rc == NGX_OK && !r->header_only ? ngx_http_output_filter(r, &out) : rc;
}

static void on_done(struct wsd_call *call, int error, const struct wsd_job_info *info, const char *text, void *userdata)
{
    ngx_http_request_t *r = userdata;
    ngx_connection_t *c = r->connection;
    ngx_int_t rc;

    if (error == 0 && info->state == WSD_JOB_SUCCEEDED) {
        rc = answer(r, call);
    } else {
        if (error == 0)
            text = info->error[0] ? info->error : wsd_job_state_name(info->state);
        log_failure(r, text);
        rc = error == -ETIMEDOUT ? NGX_HTTP_GATEWAY_TIME_OUT
             : error == -EAGAIN  ? NGX_HTTP_SERVICE_UNAVAILABLE
                                 : NGX_HTTP_BAD_GATEWAY;
    }
    on_cleanup(r);
    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);
}

/* The body is the input: the file that nginx has put it in, or a copy of its pieces, which are small then. */
static ngx_int_t take_body(ngx_http_request_t *r, struct wsd_submit *job)
{
    ngx_chain_t *first = r->request_body ? r->request_body->bufs : NULL, *at;
    u_char *p;

    for (at = first; at; at = at->next)
        job->input_size += (size_t)ngx_buf_size(at->buf);
    if (first && first->buf->in_file) {
        job->flags |= WSD_SUBMIT_FILE;
        job->input_fd = first->buf->file->fd;
        job->input_offset = (uint64_t)first->buf->file_pos;
        return NGX_OK;
    }
    job->input = p = ngx_palloc(r->pool, job->input_size);
    for (at = first; p && at; at = at->next)
        p = ngx_cpymem(p, at->buf->pos, ngx_buf_size(at->buf));
    return p ? NGX_OK : NGX_ERROR;
}

/* Called when the body is there. Returns NGX_DONE, or the status of the answer. */
static ngx_int_t submit(ngx_http_request_t *r)
{
    const struct location *location = ngx_http_get_module_loc_conf(r, ngx_http_wsd_module);
    ngx_http_cleanup_t *cleanup = ngx_http_cleanup_add(r, 0);
    u_char *from = r->args.data, *to = ngx_pnalloc(r->pool, r->args.len + 1);
    const char *arg = (char *)to;
    const struct wsd_callbacks callbacks = {.size = sizeof(callbacks), .done = on_done, .userdata = r};
    struct wsd_submit job = {.size = sizeof(job),
                             .plugin = location->plugin,
                             .function = location->function,
                             .args = &arg,
                             .n_args = r->args.len > 0,
                             .flags = location->output ? WSD_SUBMIT_DIRECT : 0,
                             .output_size = location->output,
                             .deadline_usec = (uint64_t)location->timeout * 1000};
    struct wsd_call *call;
    int error;

    if (!cleanup || !to || take_body(r, &job) != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    ngx_unescape_uri(&to, &from, r->args.len, 0);
    *to = '\0';
    error = wsd_client_submit(client, &job, &callbacks, &call);
    if (error < 0) {
        log_failure(r, wsd_client_error(client));
        return error == -EAGAIN ? NGX_HTTP_SERVICE_UNAVAILABLE : NGX_HTTP_BAD_GATEWAY;
    }
    cleanup->handler = on_cleanup;
    cleanup->data = r;
    ngx_http_set_ctx(r, call, ngx_http_wsd_module);

    /* nginx looks whether the client is still there */
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;
    if (r->connection->read->ready) {
        ngx_post_event(r->connection->read, &ngx_posted_events);
    } else if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return NGX_DONE;
}

static void on_body(ngx_http_request_t *r)
{
    ngx_int_t rc = submit(r);

    if (rc != NGX_DONE)
        ngx_http_finalize_request(r, rc);
}

static ngx_int_t handle(ngx_http_request_t *r)
{
    ngx_int_t rc = ngx_http_read_client_request_body(r, on_body);

    return rc >= NGX_HTTP_SPECIAL_RESPONSE ? rc : NGX_DONE;
}

/* --- the configuration ---------------------------------------------------------------------------------------- */

static char *set_wsd(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
    ngx_http_core_loc_conf_t *core = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    struct location *location = conf;

    if (location->plugin)
        return "is duplicate";
    location->plugin = (char *)((ngx_str_t *)cf->args->elts)[1].data;
    location->function = strchr(location->plugin, ':');
    if (location->function)
        *location->function++ = '\0';
    core->handler = handle;
    return NGX_CONF_OK;
}

static void *create_main(ngx_conf_t *cf)
{
    struct main_conf *conf = ngx_pcalloc(cf->pool, sizeof(*conf));

    if (conf)
        conf->calls = NGX_CONF_UNSET_UINT;
    return conf;
}

static char *init_main(ngx_conf_t *cf, void *conf)
{
    ngx_conf_init_uint_value(((struct main_conf *)conf)->calls, 256);
    return NGX_CONF_OK;
}

static void *create_location(ngx_conf_t *cf)
{
    struct location *location = ngx_pcalloc(cf->pool, sizeof(*location));

    if (location)
        location->timeout = NGX_CONF_UNSET_MSEC;
    if (location)
        location->output = NGX_CONF_UNSET_SIZE;
    return location;
}

static char *merge_location(ngx_conf_t *cf, void *outer, void *inner)
{
    struct location *from = outer, *to = inner;

    ngx_conf_merge_msec_value(to->timeout, from->timeout, 60000);
    ngx_conf_merge_size_value(to->output, from->output, 0);
    return NGX_CONF_OK;
}

static ngx_command_t commands[] = {
    {ngx_string("wsd"), NGX_HTTP_LOC_CONF | NGX_CONF_TAKE1, set_wsd, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    {ngx_string("wsd_timeout"), NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF | NGX_CONF_TAKE1,
     ngx_conf_set_msec_slot, NGX_HTTP_LOC_CONF_OFFSET, offsetof(struct location, timeout), NULL},
    {ngx_string("wsd_output"), NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF | NGX_CONF_TAKE1,
     ngx_conf_set_size_slot, NGX_HTTP_LOC_CONF_OFFSET, offsetof(struct location, output), NULL},
    {ngx_string("wsd_calls"), NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE1, ngx_conf_set_num_slot, NGX_HTTP_MAIN_CONF_OFFSET,
     offsetof(struct main_conf, calls), NULL},
    ngx_null_command,
};

static ngx_http_module_t context = {
    .create_main_conf = create_main,
    .init_main_conf = init_main,
    .create_loc_conf = create_location,
    .merge_loc_conf = merge_location,
};

ngx_module_t ngx_http_wsd_module = {
    NGX_MODULE_V1,
    .ctx = &context,
    .commands = commands,
    .type = NGX_HTTP_MODULE,
    .init_process = init_process,
    .exit_process = exit_process,
};
