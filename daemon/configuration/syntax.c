/* SPDX-License-Identifier: Apache-2.0
 *
 * syntax.c: lines, words, quotes and comments of wsd.conf.
 * Owns nothing that lasts. [any]
 * Keeps: a line is taken whole or refused; what is printed reads back as the same bytes.
 * Does not know sections or keys. */
#include "configuration/syntax.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/escape.h"

#define SYNTAX_WHY 1600
#define BLANKS     " \t\v\f\r"
#define BYTE_MARK  "\xef\xbb\xbf"

static bool is_blank(char c)
{
    return c && strchr(BLANKS, c);
}

static void trim_end(char *text)
{
    size_t n = strlen(text);

    while (n > 0 && is_blank(text[n - 1]))
        n--;
    text[n] = 0;
}

/* --- escapes --------------------------------------------------------------------------------------------------- */

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : 99;
}

/* n digits of that base. -1: it is something else, or NUL. */
static int number(const char *at, int n, int base)
{
    int v = 0;

    for (int i = 0; i < n; i++) {
        int d = digit(at[i]);

        if (d >= base)
            return -1;
        v = v * base + d;
    }
    return v > 0 && v < 256 ? v : -1;
}

/* Returns the character that an escape stands for. at: behind the backslash. *ret_n: the length of the escape; 0 says
 * that there is none. The backslash is then plain text, as in systemd. */
static char escape(const char *at, size_t *ret_n)
{
    static const char letters[] = "abfnrtv\\\"'s", means[] = "\a\b\f\n\r\t\v\\\"' ";
    const char *letter = *at ? strchr(letters, *at) : NULL;
    int v = *at == 'x' ? number(at + 1, 2, 16) : number(at, 3, 8);

    *ret_n = letter ? 1 : v > 0 ? 3 : 0;
    return letter ? means[letter - letters] : (char)v;
}

/* --- words ----------------------------------------------------------------------------------------------------- */

/* Reads the word at *at, and moves *at behind it; blanks end it outside of quotes. False: a quote is open, or a \
 * stands at the end. */
static bool word(const char **at, char **to)
{
    char quote = 0;

    for (; **at && (quote || (**at != ' ' && **at != '\t')); ++*at) {
        size_t n;
        char c = **at;

        if (quote ? c == quote : c == '"' || c == '\'') {
            quote = quote ? 0 : c;
        } else if (c == '\\') {
            char means = escape(*at + 1, &n);

            if (!(*at)[1])
                return false;
            *(*to)++ = n ? means : c;
            *at += n;
        } else {
            *(*to)++ = c;
        }
    }
    *(*to)++ = 0;
    return !quote;
}

int syntax_words(const char *text, char **ret_words, size_t *ret_size, uint32_t *ret_n)
{
    _cleanup_(freep) char *words = malloc(strlen(text) + 2);
    char *to = words;
    uint32_t n = 0;

    if (!words)
        return -ENOMEM;
    for (const char *at = text + strspn(text, " \t"); *at; at += strspn(at, " \t"), n++)
        if (!word(&at, &to))
            return -EINVAL;
    *ret_size = (size_t)(to - words);
    *ret_words = TAKE(words);
    *ret_n = n;
    return 0;
}

int syntax_unquote(char *value)
{
    _cleanup_(freep) char *words = NULL;
    size_t size;
    uint32_t n;
    int r;

    if (*value != '"' && *value != '\'')
        return 0;
    r = syntax_words(value, &words, &size, &n);
    if (r < 0 || n != 1)
        return r < 0 ? r : -EINVAL;
    memcpy(value, words, size); /* no word is longer than what it is written as */
    return 0;
}

void syntax_trim(char *value, bool quotes)
{
    size_t n = strspn(value, BLANKS);
    char quote = 0;

    memmove(value, value + n, strlen(value + n) + 1);
    quotes |= *value == '"' || *value == '\'';
    for (char *at = value; *at; at++) {
        if (!quote && *at == ';' && (at == value || is_blank(at[-1]))) {
            *at = 0;
            break;
        }
        if (!quotes)
            continue;
        if (*at == '\\' && at[1])
            at++;
        else if (quote ? *at == quote : *at == '"' || *at == '\'')
            quote = quote ? 0 : *at;
    }
    if (!quote)
        trim_end(value);
}

/* --- printing -------------------------------------------------------------------------------------------------- */

/* How many bytes of a text are shown as they are: its first character, or 0. */
static size_t shown(const char *text)
{
    uint32_t character;
    size_t n = escape_character(text, &character);

    return n > 0 && *text != '\t' && escape_printable(character) ? n : 0;
}

static bool has_hidden(const char *text)
{
    for (size_t n; *text; text += n)
        if ((n = shown(text)) == 0)
            return true;
    return false;
}

static void print_quoted(const char *text, FILE *to)
{
    fputc('"', to);
    for (size_t n; *text; text += n ? n : 1) {
        n = shown(text);
        if (n == 0)
            fprintf(to, "\\x%02x", (unsigned)(unsigned char)*text);
        else
            fprintf(to, "%s%.*s", strchr("\"\\", *text) ? "\\" : "", (int)n, text);
    }
    fputc('"', to);
}

void syntax_print_word(const char *word, FILE *to)
{
    if (!*word || *word == ';' || strpbrk(word, " \"'\\") || has_hidden(word))
        print_quoted(word, to);
    else
        fputs(word, to);
}

void syntax_print_value(const char *value, FILE *to)
{
    size_t n = strlen(value);

    if (n && (strchr(" \"';", *value) || value[n - 1] == ' ' || strstr(value, " ;") || has_hidden(value)))
        print_quoted(value, to);
    else
        fputs(value, to);
}

/* --- lines ----------------------------------------------------------------------------------------------------- */

struct reading {
    char section[SYNTAX_SECTION + 1];
    unsigned line;
    bool has_key; /* in the section: what is indented behind it looks like more of its value */
    syntax_on_key on_key;
    void *userdata;
    char *why;
    size_t size;
};

static int refuse_line(struct reading *r, const char *why)
{
    snprintf(r->why, r->size, "%s", why);
    return -EINVAL;
}

static int read_section(struct reading *r, char *name)
{
    char *end = strchr(name, ']');
    char why[64];

    if (!end)
        return refuse_line(r, "neither a [section] nor a `key = value`");
    if (end - name > (ptrdiff_t)SYNTAX_SECTION) {
        snprintf(why, sizeof(why), "the name of the section is longer than %u bytes", SYNTAX_SECTION);
        return refuse_line(r, why);
    }
    *end++ = 0;
    end += strspn(end, BLANKS);
    if (*end && *end != ';' && *end != '#')
        return refuse_line(r, "something stands behind the ] of the section");
    snprintf(r->section, sizeof(r->section), "%s", name);
    r->has_key = false;
    return 0;
}

static int read_line(struct reading *r, char *line)
{
    char *at = line + strspn(line, BLANKS), *value;
    bool indented = at > line;

    if (!*at || *at == '#' || *at == ';')
        return 0;
    if (r->has_key && indented)
        return refuse_line(r, "the line begins with a blank, as if it went on with the one before: remove the blank");
    if (*at == '[')
        return read_section(r, at + 1);
    value = strpbrk(at, "=:");
    if (!value || value == at)
        return refuse_line(r, "neither a [section] nor a `key = value`");
    r->has_key = true;
    *value++ = 0;
    trim_end(at);
    return r->on_key(r->userdata, r->line, r->section, at, value, r->why, r->size);
}

/* -ENODATA: that was the last. */
static int next_line(struct reading *r, FILE *file, char **line, size_t *room)
{
    ssize_t n = getline(line, room, file);
    char why[64];

    if (n < 0)
        return ferror(file) ? -EIO : feof(file) ? -ENODATA : -ENOMEM;
    if (n > 0 && (*line)[n - 1] == '\n')
        (*line)[--n] = 0;
    if (strlen(*line) < (size_t)n)
        return refuse_line(r, "the line has a NUL byte: a text is wanted");
    if (n > (ssize_t)SYNTAX_LINE_MAX) {
        snprintf(why, sizeof(why), "the line is longer than %u bytes", SYNTAX_LINE_MAX);
        return refuse_line(r, why);
    }
    return 0;
}

int syntax_read(FILE *file, const char *path, syntax_on_key on_key, void *userdata, char *error, size_t size)
{
    _cleanup_(freep) char *line = NULL;
    char why[SYNTAX_WHY] = "";
    struct reading r = {.on_key = on_key, .userdata = userdata, .why = why, .size = sizeof(why)};
    size_t room = 0;
    int result;

    while ((result = next_line(&r, file, &line, &room)) == 0 || result == -EINVAL) {
        r.line++;
        if (result == 0)
            result = read_line(&r, r.line == 1 && strncmp(line, BYTE_MARK, 3) == 0 ? line + 3 : line);
        if (result < 0)
            break;
    }
    if (result == -ENODATA)
        return 0;
    if (result == -EIO)
        snprintf(error, size, "%.300s: cannot be read", path);
    else
        snprintf(error, size, "%.300s:%u: %s", path, r.line, result == -ENOMEM ? "out of memory" : why);
    return result;
}
