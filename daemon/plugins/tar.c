/* SPDX-License-Identifier: Apache-2.0
 *
 * tar.c: headers of a tar archive.
 * Owns nothing. Keeps: a member's header depends on nothing but the member. Names are bytes: neither is an encoding
 * assumed, nor is one converted. Does not write data. */
#include "plugins/tar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"

/* As it lies in the archive. Numbers are octal digits, with a NUL behind them. */
struct header {
    char name[TAR_NAME_MAX];
    char mode[8], uid[8], gid[8];
    char size[12], mtime[12];
    char checksum[8];
    char type;
    char link[TAR_NAME_MAX];
    char magic[6], version[2];
    char user[TAR_PEOPLE_MAX], group[TAR_PEOPLE_MAX];
    char major[8], minor[8];
    char prefix[155], rest[12];
};

_Static_assert(sizeof(struct header) == TAR_BLOCK, "a header is one block");

#define EXTENDED_PLACE "/PaxHeaders/"

static void put_octal(char *field, size_t size, uint64_t number)
{
    field[--size] = '\0';
    while (size) {
        field[--size] = (char)('0' + (number & 7));
        number >>= 3;
    }
}

/* What is longer is cut, and then has no NUL. */
static void put_text(char *field, size_t size, const char *text)
{
    memcpy(field, text, strnlen(text, size));
}

static void put_checksum(struct header *header)
{
    const unsigned char *bytes = (const unsigned char *)header;
    unsigned sum = 0;

    memset(header->checksum, ' ', sizeof(header->checksum));
    for (size_t i = 0; i < sizeof(*header); i++)
        sum += bytes[i];
    put_octal(header->checksum, sizeof(header->checksum) - 1, sum);
}

static bool is_ascii(const char *text)
{
    for (; *text; text++)
        if (*text & 0x80)
            return false;
    return true;
}

static bool fits_time(time_t seconds)
{
    return seconds >= 0 && (uint64_t)seconds <= TAR_SIZE_MAX;
}

/* ---- pax records ---- */

static size_t digits(size_t n)
{
    size_t d = 1;

    for (; n >= 10; n /= 10)
        d++;
    return d;
}

/* "SIZE KEY=VALUE\n", where the size counts its own digits. */
static int put_record(struct buffer *records, const char *key, const char *value)
{
    size_t n = strlen(key) + strlen(value) + 3, size = n + digits(n);
    char *room;

    if (n + digits(size) > size)
        size++;
    room = buffer_room(records, size + 1);
    if (!room)
        return -ENOMEM;
    sprintf(room, "%zu %s=%s\n", size, key, value);
    records->size += size;
    return 0;
}

static int put_number_record(struct buffer *records, const char *key, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    return put_record(records, key, text);
}

/* Seconds with as many decimals as there are. */
static int put_time_record(struct buffer *records, struct timespec t)
{
    bool negative = t.tv_sec < 0;
    uint64_t seconds = negative ? -(uint64_t)t.tv_sec : (uint64_t)t.tv_sec;
    unsigned long nsec = (unsigned long)t.tv_nsec;
    char text[48];
    size_t n;

    if (negative && nsec) {
        seconds--;
        nsec = 1000000000 - nsec;
    }
    n = (size_t)snprintf(text, sizeof(text), "%s%llu.%09lu", negative ? "-" : "", (unsigned long long)seconds, nsec);
    while (text[n - 1] == '0')
        n--;
    text[text[n - 1] == '.' ? n - 1 : n] = '\0';
    return put_record(records, "mtime", text);
}

static bool name_needs_record(const char *name)
{
    return strlen(name) > TAR_NAME_MAX || !is_ascii(name);
}

static bool people_need_record(const char *name)
{
    return strlen(name) > TAR_PEOPLE_MAX || !is_ascii(name);
}

/* All that ustar has no room for, in the order of GNU tar, which looks at the length of a link only. */
static int put_records(struct buffer *records, const struct tar_member *m)
{
    int r = 0;

    if (m->link && strlen(m->link) > TAR_NAME_MAX)
        r = put_record(records, "linkpath", m->link);
    if (!r && name_needs_record(m->name))
        r = put_record(records, "path", m->name);
    if (!r && m->uid > TAR_OWNER_MAX)
        r = put_number_record(records, "uid", m->uid);
    if (!r && m->gid > TAR_OWNER_MAX)
        r = put_number_record(records, "gid", m->gid);
    if (!r && m->size > TAR_SIZE_MAX)
        r = put_number_record(records, "size", m->size);
    if (!r && (!fits_time(m->mtime.tv_sec) || m->mtime.tv_nsec))
        r = put_time_record(records, m->mtime);
    if (!r && people_need_record(m->user))
        r = put_record(records, "uname", m->user);
    if (!r && people_need_record(m->group))
        r = put_record(records, "gname", m->group);
    return r;
}

/* ---- headers ---- */

/* "FOLDER/PaxHeaders/NAME", for readers that do not know pax and extract it as a file; cut where it is too long. */
static void put_extended_name(char *field, const char *name)
{
    size_t size = strlen(name);
    const char *last;
    int folder;

    while (size > 1 && name[size - 1] == '/')
        size--;
    last = memrchr(name, '/', size);
    folder = last ? (int)(last - name) : 1;
    last = last ? last + 1 : name;
    while (folder > 1 && name[folder - 1] == '/')
        folder--;

    char text[TAR_NAME_MAX + 1];

    snprintf(text, sizeof(text), "%.*s" EXTENDED_PLACE "%.*s", folder, last == name ? "." : name,
             (int)(name + size - last), last);
    put_text(field, TAR_NAME_MAX, text);
}

static void put_magic(struct header *header)
{
    memcpy(header->magic, "ustar", sizeof(header->magic));
    memcpy(header->version, "00", sizeof(header->version));
}

/* The header before the records, and the records. */
static int put_extended(struct buffer *buffer, const struct tar_member *m, const struct buffer *records)
{
    struct header header = {.type = 'x'};
    time_t seconds = m->mtime.tv_sec < 0 ? 0 : m->mtime.tv_sec;
    int r;

    put_extended_name(header.name, m->name);
    put_octal(header.mode, sizeof(header.mode), 0644);
    put_octal(header.uid, sizeof(header.uid), 0);
    put_octal(header.gid, sizeof(header.gid), 0);
    put_octal(header.size, sizeof(header.size), records->size);
    put_octal(header.mtime, sizeof(header.mtime), MIN((uint64_t)seconds, TAR_SIZE_MAX));
    put_magic(&header);
    put_checksum(&header);
    r = buffer_add(buffer, &header, sizeof(header));
    return r ? r : tar_put_data(buffer, records->data, records->size);
}

static char type_of(const struct tar_member *m)
{
    if (m->hard)
        return '1';
    switch (m->mode & S_IFMT) {
    case S_IFLNK:
        return '2';
    case S_IFCHR:
        return '3';
    case S_IFBLK:
        return '4';
    case S_IFDIR:
        return '5';
    case S_IFIFO:
        return '6';
    }
    return '0';
}

static int put_ustar(struct buffer *buffer, const struct tar_member *m)
{
    bool device = S_ISCHR(m->mode) || S_ISBLK(m->mode);
    struct header header = {.type = type_of(m)};

    put_text(header.name, sizeof(header.name), m->name);
    put_octal(header.mode, sizeof(header.mode), m->mode & 07777);
    put_octal(header.uid, sizeof(header.uid), m->uid > TAR_OWNER_MAX ? 0 : m->uid);
    put_octal(header.gid, sizeof(header.gid), m->gid > TAR_OWNER_MAX ? 0 : m->gid);
    put_octal(header.size, sizeof(header.size), m->size > TAR_SIZE_MAX ? 0 : m->size);
    put_octal(header.mtime, sizeof(header.mtime), fits_time(m->mtime.tv_sec) ? (uint64_t)m->mtime.tv_sec : 0);
    put_text(header.link, sizeof(header.link), m->link ? m->link : "");
    put_magic(&header);
    put_text(header.user, sizeof(header.user), m->user);
    put_text(header.group, sizeof(header.group), m->group);
    put_octal(header.major, sizeof(header.major), device ? major(m->device) : 0);
    put_octal(header.minor, sizeof(header.minor), device ? minor(m->device) : 0);
    put_checksum(&header);
    return buffer_add(buffer, &header, sizeof(header));
}

int tar_put_header(struct buffer *buffer, const struct tar_member *member)
{
    struct buffer records = {.data = NULL};
    size_t before = buffer->size;
    int r = put_records(&records, member);

    if (!r && records.size)
        r = put_extended(buffer, member, &records);
    if (!r)
        r = put_ustar(buffer, member);
    if (r)
        buffer->size = before;
    buffer_deinit(&records);
    return r;
}

size_t tar_padding(uint64_t size)
{
    return (size_t)(-size & (TAR_BLOCK - 1));
}

int tar_put_data(struct buffer *buffer, const void *data, size_t size)
{
    static const char zeros[TAR_BLOCK];
    int r = buffer_add(buffer, data, size);

    return r ? r : buffer_add(buffer, zeros, tar_padding(size));
}

size_t tar_name_begin(const char *path)
{
    size_t begin = 0;

    for (const char *p = path; *p; p += strcspn(p, "/"), p += *p == '/')
        if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || !p[2]))
            begin = (size_t)(p + 2 - path);
    return begin + strspn(path + begin, "/");
}
