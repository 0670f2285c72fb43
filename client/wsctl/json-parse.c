/* SPDX-License-Identifier: Apache-2.0
 *
 * json-parse.c: reads JSON. No library: none of Debian's says where in its file each value stood, which an error in a
 * value has to say (daemon/decisions/0025-json.md).
 * Owns what it returns. [any]
 * Keeps: whatever the bytes are, no more memory than a small multiple of theirs, and no deeper than JSON_DEPTH_MAX.
 * Does not know what the values mean. */
#include "json-parse.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct reader {
    const char *at, *end, *line_start;
    unsigned line;
    char *error;
};

static int refuse_text(const struct reader *r, const char *what)
{
    snprintf(r->error, JSON_ERROR, "%u:%u: %s", r->line, (unsigned)(r->at - r->line_start) + 1, what);
    return -EINVAL;
}

static void skip_blanks(struct reader *r)
{
    for (; r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at; r->at++)
        if (*r->at == '\n') {
            r->line++;
            r->line_start = r->at + 1;
        }
}

static bool next_is(struct reader *r, char c)
{
    skip_blanks(r);
    return r->at < r->end && *r->at == c;
}

static bool take_char(struct reader *r, char c)
{
    if (!next_is(r, c))
        return false;
    r->at++;
    return true;
}

struct json_value *json_free(struct json_value *value)
{
    while (value) { /* the last one of each level goes last, so that nothing but the depth recurs */
        struct json_value *next = value->next;

        json_free(value->first);
        free(value->name);
        free(value->text);
        free(value);
        value = next;
    }
    return NULL;
}

/* Four hexadecimal digits; -1: not that. */
static int hex4(const struct reader *r)
{
    int n = 0;

    if (r->end - r->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = r->at[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;

        if (d < 0)
            return -1;
        n = n * 16 + d;
    }
    return n;
}

static char *put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 63));
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    }
    return to;
}

/* Behind `\u`. What it stands for takes no more bytes than it does. */
static int unicode(struct reader *r, char **to)
{
    int c = hex4(r), low;

    if (c <= 0)
        return refuse_text(r, c < 0 ? "four hexadecimal digits are wanted behind \\u" : "a string with a NUL in it");
    r->at += 4;
    if (c >= 0xd800 && c < 0xdc00 && r->end - r->at >= 2 && r->at[0] == '\\' && r->at[1] == 'u') {
        r->at += 2;
        low = hex4(r);
        if (low < 0xdc00 || low >= 0xe000)
            return refuse_text(r, "half of a surrogate pair");
        r->at += 4;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xd800 && c < 0xe000) {
        return refuse_text(r, "half of a surrogate pair");
    }
    *to = put_utf8(*to, (unsigned)c);
    return 0;
}

/* At its opening quote. */
static int read_string(struct reader *r, char **ret)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *close = ++r->at;
    char *text, *to;
    int error = 0;

    for (; close < r->end && *close != '"'; close++)
        close += *close == '\\' && close + 1 < r->end;
    if (close >= r->end)
        return refuse_text(r, "a string that does not end");
    text = to = malloc((size_t)(close - r->at) + 1);
    if (!text)
        return -ENOMEM;
    while (error == 0 && r->at < close) {
        const char *escape;

        if ((unsigned char)*r->at < ' ') {
            error = refuse_text(r, "a control character in a string: write it as \\n, \\t or \\u....");
        } else if (*r->at != '\\') {
            *to++ = *r->at++;
        } else if (r->at[1] == 'u') {
            r->at += 2;
            error = unicode(r, &to);
        } else if ((escape = memchr(escapes, r->at[1], sizeof(escapes) - 1))) {
            *to++ = meanings[escape - escapes];
            r->at += 2;
        } else {
            error = refuse_text(r, "no such escape in a string");
        }
    }
    if (error) {
        free(text);
        return error;
    }
    *to = 0;
    r->at = close + 1;
    *ret = text;
    return 0;
}

static size_t digits(const struct reader *r, const char *at)
{
    const char *p = at;

    while (p < r->end && *p >= '0' && *p <= '9')
        p++;
    return (size_t)(p - at);
}

static int read_number(struct reader *r, struct json_value *v)
{
    const char *p = r->at + (*r->at == '-');
    size_t n = digits(r, p);

    if (n == 0 || (n > 1 && *p == '0'))
        return refuse_text(r, n == 0 ? "no digit behind the minus of a number"
                                     : "a number begins with no zero but that before its point");
    p += n;
    if (p < r->end && *p == '.') {
        n = digits(r, p + 1);
        if (n == 0)
            return refuse_text(r, "no digit behind the point of a number");
        p += n + 1;
    }
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        const char *exponent = p + 1;

        exponent += exponent < r->end && (*exponent == '+' || *exponent == '-');
        n = digits(r, exponent);
        if (n == 0)
            return refuse_text(r, "no digit in the exponent of a number");
        p = exponent + n;
    }
    v->type = JSON_NUMBER;
    v->text = strndup(r->at, (size_t)(p - r->at));
    r->at = p;
    return v->text ? 0 : -ENOMEM;
}

static int read_word(struct reader *r, struct json_value *v)
{
    static const char *const words[] = {"null", "true", "false"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(r->end - r->at) < n || memcmp(r->at, words[i], n) != 0)
            continue;
        v->type = i == 0 ? JSON_NULL : JSON_BOOL;
        v->text = strdup(words[i]);
        r->at += n;
        return v->text ? 0 : -ENOMEM;
    }
    if (*r->at == '-' || digits(r, r->at) > 0)
        return read_number(r, v);
    return refuse_text(r, "no value begins so: an object, an array, a string, a number, true, false or null is wanted");
}

static int read_value(struct reader *r, unsigned depth, struct json_value *v);

/* Members of an object, or of an array, behind its bracket. */
static int read_members(struct reader *r, unsigned depth, struct json_value *v, char close)
{
    struct json_value **last = &v->first;

    if (depth == JSON_DEPTH_MAX)
        return refuse_text(r, "too deep");
    if (take_char(r, close))
        return 0;
    do {
        struct json_value *member = *last = calloc(1, sizeof(*member));
        int error = member ? 0 : -ENOMEM;

        if (error)
            return error;
        last = &member->next;
        if (v->type == JSON_OBJECT) {
            if (!next_is(r, '"'))
                return refuse_text(r, "the name of a member, in double quotes, is wanted");
            error = read_string(r, &member->name);
            for (const struct json_value *other = v->first; error == 0 && other != member; other = other->next)
                if (strcmp(other->name, member->name) == 0)
                    return refuse_text(r, "a member of the same name is there already");
            if (error == 0 && !take_char(r, ':'))
                return refuse_text(r, "a colon is wanted behind the name of a member");
        }
        if (error == 0)
            error = read_value(r, depth + 1, member);
        if (error)
            return error;
    } while (take_char(r, ','));
    return take_char(r, close) ? 0 : refuse_text(r, close == '}' ? "a comma or } is wanted" : "a comma or ] is wanted");
}

static int read_value(struct reader *r, unsigned depth, struct json_value *v)
{
    skip_blanks(r);
    v->line = r->line;
    v->column = (unsigned)(r->at - r->line_start) + 1;
    if (r->at == r->end)
        return refuse_text(r, "it ends where a value is wanted");
    switch (*r->at) {
    case '{':
    case '[':
        v->type = *r->at == '{' ? JSON_OBJECT : JSON_ARRAY;
        r->at++;
        return read_members(r, depth, v, v->type == JSON_OBJECT ? '}' : ']');
    case '"':
        v->type = JSON_STRING;
        return read_string(r, &v->text);
    default:
        return read_word(r, v);
    }
}

int json_parse(const char *data, size_t size, struct json_value **ret, char error[static JSON_ERROR])
{
    struct reader r = {.at = data, .end = data + size, .line_start = data, .line = 1, .error = error};
    static const char mark[] = "\xef\xbb\xbf"; /* some editors put it in front of UTF-8 */
    struct json_value *v = calloc(1, sizeof(*v));

    if (size >= sizeof(mark) - 1 && memcmp(data, mark, sizeof(mark) - 1) == 0)
        r.at = r.line_start += sizeof(mark) - 1;
    int result = v ? read_value(&r, 0, v) : -ENOMEM;

    if (result == 0) {
        skip_blanks(&r);
        if (r.at < r.end)
            result = refuse_text(&r, "something behind the end");
    }
    if (result < 0) {
        if (result == -ENOMEM)
            snprintf(error, JSON_ERROR, "out of memory");
        json_free(v);
        return result;
    }
    *ret = v;
    return 0;
}

int json_read_object(const char *text, size_t size, struct json_value **ret)
{
    char error[JSON_ERROR];
    struct json_value *value = NULL;

    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < ' ' ? text[i] != '\t' : (unsigned char)text[i] >= 0x7f)
            return 0;
    int r = json_parse(text, size, &value, error);
    if (r == 0 && value->type == JSON_OBJECT) {
        *ret = value;
        return 1;
    }
    json_free(value);
    return r == -ENOMEM ? r : 0;
}
