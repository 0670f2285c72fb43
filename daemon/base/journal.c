/* SPDX-License-Identifier: Apache-2.0
 *
 * journal.c: sends the log's lines to the journal.
 * Owns nothing.
 * Does not know what is in them. */
/* Before its header: CODE_FILE and the like would be of this file, always. */
#define SD_JOURNAL_SUPPRESS_LOCATION

#include "base/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "base/log.h"

static void send_fields(const struct iovec *fields, int n)
{
    (void)sd_journal_sendv(fields, n); /* a failure cannot be reported anywhere */
}

void journal_init(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;

    if (stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev &&
        st.st_ino == ino)
        log_set_journal(send_fields);
}
