/* SPDX-License-Identifier: Apache-2.0
 *
 * openssl.c: the module: TLS by OpenSSL.
 * Owns contexts and connections; never the sockets. [one thread]
 * Keeps: version 1.3 only, and certificates of both sides always. No session is resumed, so that each connection proves
 * its certificate. No SIGPIPE.
 * Both ends are wsd's, so no older version need be supported. With TLS 1.3 alone, every key exchange is ephemeral,
 * eavesdroppers do not see the client's certificate, and renegotiation, compression and weak ciphers do not exist.
 * Does not know the rights of users. */
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "tls/tls.h"

struct tls_context {
    SSL_CTX *ssl;
};

struct tls {
    SSL *ssl;
    int fd; /* the caller's */
    bool waits_to_write, over;
    unsigned reads_left; /* of this recv() */
    struct tls_work work;
    int failure; /* errno of what error is about; 0: none */
    char error[TLS_ERROR];
};

/* --- the socket --------------------------------------------------------------------------------------------------- */

static int fd_of(BIO *b)
{
    return ((const struct tls *)BIO_get_data(b))->fd;
}

/* OpenSSL's own socket would raise SIGPIPE. */
static int socket_write(BIO *b, const char *data, int size)
{
    ssize_t n = send(fd_of(b), data, (size_t)size, MSG_NOSIGNAL | MSG_DONTWAIT);

    BIO_clear_retry_flags(b);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(b);
    return (int)n;
}

/* After a record that has nothing for recv(), OpenSSL reads on by itself as long as the other side sends such records:
 * this ends it. */
static int socket_read(BIO *b, char *data, int size)
{
    struct tls *t = BIO_get_data(b);
    ssize_t n;

    BIO_clear_retry_flags(b);
    if (t->reads_left == 0) {
        BIO_set_retry_read(b);
        return -1;
    }
    t->reads_left--;
    t->work.reads++;
    n = recv(t->fd, data, (size_t)size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(b);
    return (int)n;
}

static long socket_ctrl(BIO *b, int what, long number, void *data)
{
    return what == BIO_CTRL_FLUSH; /* nothing is held back */
}

/* Counts received messages of handshakes, before they are handled. */
static void on_message(int sent, int version, int type, const void *data, size_t size, SSL *ssl, void *userdata)
{
    struct tls *t = userdata;

    if (sent || type != SSL3_RT_HANDSHAKE)
        return;
    t->work.handshakes++;
    t->work.bytes += (uint32_t)size;
}

/* One for all, which stays: connections outlive the context that they were opened with. */
static const BIO_METHOD *socket_method(void)
{
    static BIO_METHOD *method;

    if (!method)
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "wsd");
    if (method) {
        BIO_meth_set_write(method, socket_write);
        BIO_meth_set_read(method, socket_read);
        BIO_meth_set_ctrl(method, socket_ctrl);
    }
    return method;
}

/* --- contexts ----------------------------------------------------------------------------------------------------- */

static const char *reason(void)
{
    unsigned long e = ERR_peek_last_error();
    const char *text = ERR_SYSTEM_ERROR(e) ? strerror(ERR_GET_REASON(e)) : ERR_reason_error_string(e);

    return text ? text : "cannot be read";
}

static int refuse_file(char error[TLS_ERROR], const char *file, const char *why)
{
    snprintf(error, TLS_ERROR, "%.200s: %.150s", file, why);
    ERR_clear_error();
    return -EINVAL;
}

static int never_ask(char *to, int size, int writing, void *userdata)
{
    return 0; /* a daemon has no terminal to ask for the password of a key */
}

/* A process that reads the key can pose as its owner. */
static int check_key(const char *file, char error[TLS_ERROR])
{
    struct stat st;

    if (stat(file, &st) < 0)
        return refuse_file(error, file, strerror(errno));
    return st.st_mode & S_IRWXO ? refuse_file(error, file, "others can read it: chmod 600") : 0;
}

static int load_crl(SSL_CTX *ssl, const char *file, char error[TLS_ERROR])
{
    X509_STORE *store = SSL_CTX_get_cert_store(ssl);
    X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());

    if (!lookup || X509_load_crl_file(lookup, file, X509_FILETYPE_PEM) <= 0)
        return refuse_file(error, file, reason());
    X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    return 0;
}

static int load_files(SSL_CTX *ssl, const struct tls_options *o, char error[TLS_ERROR])
{
    int r = check_key(o->key, error);

    if (r < 0)
        return r;
    if (SSL_CTX_use_certificate_chain_file(ssl, o->certificate) != 1)
        return refuse_file(error, o->certificate, reason());
    if (SSL_CTX_use_PrivateKey_file(ssl, o->key, SSL_FILETYPE_PEM) != 1)
        return refuse_file(error, o->key, reason());
    if (SSL_CTX_load_verify_file(ssl, o->ca) != 1)
        return refuse_file(error, o->ca, reason());
    return o->crl ? load_crl(ssl, o->crl, error) : 0;
}

static struct tls_context *context_free(struct tls_context *c)
{
    if (!c)
        return NULL;
    SSL_CTX_free(c->ssl);
    free(c);
    return NULL;
}

static int context_new(struct tls_context **ret, const struct tls_options *o, char error[TLS_ERROR])
{
    struct tls_context *c = calloc(1, sizeof(*c));
    int r;

    ERR_clear_error();
    snprintf(error, TLS_ERROR, "out of memory");
    if (!c)
        return -ENOMEM;
    c->ssl = SSL_CTX_new(o->server ? TLS_server_method() : TLS_client_method());
    if (!c->ssl || SSL_CTX_set_min_proto_version(c->ssl, TLS1_3_VERSION) != 1) {
        context_free(c);
        return -ENOMEM;
    }
    SSL_CTX_set_options(c->ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_num_tickets(c->ssl, 0);
    SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(c->ssl,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_verify_depth(c->ssl, TLS_DEPTH_MAX);
    SSL_CTX_set_max_cert_list(c->ssl, TLS_CHAIN_MAX);
    SSL_CTX_set_default_passwd_cb(c->ssl, never_ask);
    r = load_files(c->ssl, o, error);
    if (r < 0) {
        context_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

/* --- connections -------------------------------------------------------------------------------------------------- */

static struct tls *tls_free(struct tls *t)
{
    if (!t)
        return NULL;
    if (!t->over && SSL_is_init_finished(t->ssl))
        SSL_shutdown(t->ssl); /* what is left fits the socket, or is not said */
    SSL_free(t->ssl);
    ERR_clear_error();
    free(t);
    return NULL;
}

/* An address is compared as that, a name as a name. */
static bool expect_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *p = SSL_get0_param(ssl);

    if (X509_VERIFY_PARAM_set1_ip_asc(p, host) == 1)
        return true;
    X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
}

static int tls_open(struct tls **ret, struct tls_context *c, int fd, const char *host)
{
    struct tls *t = calloc(1, sizeof(*t));
    BIO *b = t && socket_method() ? BIO_new(socket_method()) : NULL;

    if (b)
        t->ssl = SSL_new(c->ssl);
    if (!b || !t->ssl || (host && !expect_host(t->ssl, host))) {
        BIO_free(b);
        if (t)
            SSL_free(t->ssl);
        free(t);
        ERR_clear_error();
        return -ENOMEM;
    }
    t->fd = fd;
    t->reads_left = TLS_READS_MAX;
    SSL_set_msg_callback(t->ssl, on_message);
    SSL_set_msg_callback_arg(t->ssl, t);
    BIO_set_data(b, t);
    BIO_set_init(b, 1);
    SSL_set_bio(t->ssl, b, b);
    if (host)
        SSL_set_connect_state(t->ssl);
    else
        SSL_set_accept_state(t->ssl);
    *ret = t;
    return 0;
}

/* An alert that says something against our certificate: RFC 8446, 6.2. */
static bool is_about_certificates(int alert)
{
    return (alert >= 42 && alert <= 46) || alert == 48 || alert == 49 || alert == 116;
}

static void failed(struct tls *t)
{
    unsigned long e = ERR_peek_last_error();
    int why = ERR_GET_REASON(e), alert = why - SSL_AD_REASON_OFFSET;
    long verified = SSL_get_verify_result(t->ssl);

    t->over = true;
    errno = EPROTO;
    if (verified != X509_V_OK) {
        snprintf(t->error, sizeof(t->error), "its certificate is refused: %.200s",
                 X509_verify_cert_error_string(verified));
        errno = EACCES;
    } else if (why == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        snprintf(t->error, sizeof(t->error), "it has no certificate");
        errno = EACCES;
    } else if (is_about_certificates(alert)) {
        snprintf(t->error, sizeof(t->error), "the other side refuses our certificate: %.200s",
                 SSL_alert_desc_string_long(alert));
        errno = EACCES;
    } else {
        snprintf(t->error, sizeof(t->error), "TLS: %.200s", reason());
    }
    t->failure = errno;
}

/* The result of the connection's last call, as errno; 0: its end. */
static ssize_t outcome(struct tls *t, int r, bool reading)
{
    int e = errno, why = SSL_get_error(t->ssl, r);

    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        t->waits_to_write |= (reading || !SSL_is_init_finished(t->ssl)) && why == SSL_ERROR_WANT_WRITE;
        errno = EAGAIN;
        return -1;
    }
    if (why == SSL_ERROR_ZERO_RETURN && reading)
        return 0;
    if (why == SSL_ERROR_SSL && ERR_GET_REASON(ERR_peek_last_error()) != SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        failed(t);
        return -1;
    }
    /* cut off: frames say themselves whether they are whole */
    t->over = true;
    errno = why == SSL_ERROR_SYSCALL && e ? e : ECONNRESET;
    return reading && errno == ECONNRESET ? 0 : -1;
}

static ssize_t tls_recv(struct tls *t, void *data, size_t size)
{
    if (t->failure) { /* found by send(); recv() reports it, like everything from the other side */
        errno = t->failure;
        return -1;
    }
    t->waits_to_write = false;
    t->reads_left = TLS_READS_MAX;
    ssize_t all = 0;
    int n = 1;

    size = size < INT_MAX ? size : INT_MAX;
    /* a record at a time; what ends it after some bytes comes back with the next call */
    while ((size_t)all < size && n > 0) {
        ERR_clear_error();
        errno = 0;
        n = SSL_read(t->ssl, (char *)data + all, (int)(size - (size_t)all));
        all += n > 0 ? n : 0;
    }
    ssize_t end = n > 0 ? 0 : outcome(t, n, true);
    return all ? all : end;
}

static ssize_t tls_send(struct tls *t, const void *data, size_t size)
{
    if (t->over) { /* OpenSSL must not be asked again */
        errno = EPIPE;
        return -1;
    }
    t->reads_left = TLS_READS_MAX; /* it may shake hands */
    ERR_clear_error();
    errno = 0;
    int n = SSL_write(t->ssl, data, size > INT_MAX ? INT_MAX : (int)size);
    return n > 0 ? n : outcome(t, n, false);
}

static bool recv_waits_to_write(const struct tls *t)
{
    return t->waits_to_write;
}

static bool pending(const struct tls *t)
{
    return SSL_pending(t->ssl) > 0;
}

static bool established(const struct tls *t)
{
    return SSL_is_init_finished(t->ssl);
}

static const char *last_error(const struct tls *t)
{
    return t->error;
}

static struct tls_work take_work(struct tls *t)
{
    struct tls_work w = t->work;

    t->work = (struct tls_work){0};
    return w;
}

/* --- certificates ------------------------------------------------------------------------------------------------- */

struct naming {
    bool (*each)(const char *name, void *userdata);
    void *userdata;
    unsigned n;
};

/* No control characters, neither those of ASCII nor the others, which UTF-8 begins with 0xc2. */
static bool is_printable(const unsigned char *text, int n)
{
    for (int i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] == 0x7f || (text[i] == 0xc2 && i + 1 < n && text[i + 1] < 0xa0))
            return false;
    return true;
}

/* A name with a NUL or other unprintable bytes is skipped. */
static bool tell_name(struct naming *g, const char *kind, const ASN1_STRING *s)
{
    unsigned char *text = NULL;
    char name[TLS_NAME_MAX];
    bool found = false;
    int n = g->n++ < TLS_NAMES_MAX ? ASN1_STRING_to_UTF8(&text, s) : -1;

    if (n > 0 && (size_t)n + strlen(kind) < sizeof(name)) {
        snprintf(name, sizeof(name), "%s%.*s", kind, n, (const char *)text);
        found = is_printable(text, n) && g->each(name, g->userdata);
    }
    if (n >= 0)
        OPENSSL_free(text);
    ERR_clear_error();
    return found;
}

static bool tell_alternatives(struct naming *g, X509 *x)
{
    GENERAL_NAMES *all = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    bool found = false;

    for (int i = 0; all && !found && i < sk_GENERAL_NAME_num(all); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);

        if (name->type == GEN_URI)
            found = tell_name(g, "URI:", name->d.uniformResourceIdentifier);
        else if (name->type == GEN_EMAIL)
            found = tell_name(g, "email:", name->d.rfc822Name);
        else if (name->type == GEN_DNS)
            found = tell_name(g, "DNS:", name->d.dNSName);
    }
    GENERAL_NAMES_free(all);
    return found;
}

static bool names(const struct tls *t, bool (*each)(const char *name, void *userdata), void *userdata)
{
    struct naming g = {each, userdata, 0};
    X509 *x = SSL_get0_peer_certificate(t->ssl);
    const X509_NAME *subject = x ? X509_get_subject_name(x) : NULL;
    bool found = x && tell_alternatives(&g, x);

    for (int at = -1; subject && !found && (at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0;)
        found = tell_name(&g, "CN:", X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    return found;
}

static int recheck(const struct tls *t, struct tls_context *c, char error[TLS_ERROR])
{
    X509 *x = SSL_get0_peer_certificate(t->ssl);
    X509_STORE_CTX *s = X509_STORE_CTX_new();
    int r = -ENOMEM;

    if (s && x && X509_STORE_CTX_init(s, SSL_CTX_get_cert_store(c->ssl), x, SSL_get_peer_cert_chain(t->ssl)) == 1) {
        X509_STORE_CTX_set_default(s, SSL_is_server(t->ssl) ? "ssl_client" : "ssl_server");
        X509_VERIFY_PARAM_set_depth(X509_STORE_CTX_get0_param(s), TLS_DEPTH_MAX);
        r = X509_verify_cert(s) == 1 ? 0 : -EACCES;
        snprintf(error, TLS_ERROR, "%.200s", X509_verify_cert_error_string(X509_STORE_CTX_get_error(s)));
    } else {
        snprintf(error, TLS_ERROR, "out of memory");
    }
    X509_STORE_CTX_free(s);
    ERR_clear_error();
    return r;
}

static int64_t expires(const struct tls *t)
{
    X509 *x = SSL_get0_peer_certificate(t->ssl);
    struct tm tm;

    return x && ASN1_TIME_to_tm(X509_get0_notAfter(x), &tm) == 1 ? timegm(&tm) : 0;
}

__attribute__((visibility("default"))) extern const struct tls_ops wsd_tls;

const struct tls_ops wsd_tls = {
    .version = TLS_VERSION,
    .context_new = context_new,
    .context_free = context_free,
    .open = tls_open,
    .free = tls_free,
    .recv = tls_recv,
    .send = tls_send,
    .recv_waits_to_write = recv_waits_to_write,
    .pending = pending,
    .established = established,
    .error = last_error,
    .work = take_work,
    .names = names,
    .recheck = recheck,
    .expires = expires,
};
