#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2317 # for_workers calls functions by name
# image.sh: image against ImageMagick's convert, djpeg and dwebp: pixels, sizes, errors, hostile files.
set -eu
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

if [ -n "${PLUGINS:-}" ] && [ ! -e "$PLUGINS/image.so" ]; then
  echo "skip image: this build has none (libjpeg-turbo, libpng, libwebp)"
  finish
fi
cd "$work"
export MAGICK_THREAD_LIMIT=1

# --- pictures ---

# Fine lines, edges and noise over soft colours.
convert -seed 7 -size 301x225 plasma:red-blue -attenuate 0.3 +noise Gaussian -fill white -draw 'circle 100,100 130,100' \
  -fill none -stroke black -draw 'line 0,0 300,224 line 0,224 300,0' -depth 8 rgb.png
convert -size 301x225 radial-gradient: -alpha off holes.png
convert rgb.png holes.png -compose CopyOpacity -composite rgba.png
convert rgb.png -colorspace Gray grey.png
convert grey.png holes.png -compose CopyOpacity -composite -define png:color-type=4 grey-alpha.png
convert rgb.png -colors 200 png8:palette.png
convert rgb.png -interlace PNG interlaced.png
convert -size 301x225 gradient:red-blue -define png:bit-depth=16 -define png:color-type=2 deep.png
convert rgb.png -threshold 50% -define png:bit-depth=1 -define png:color-type=0 bits.png
convert rgb.png -colors 30 -transparent black -define png:color-type=3 clear.png
convert rgb.png rgb.ppm
cjpeg -quality 92 -outfile rgb.jpg rgb.ppm
cjpeg -quality 92 -progressive -outfile progressive.jpg rgb.ppm
cjpeg -quality 92 -grayscale -outfile grey.jpg rgb.ppm
cjpeg -quality 92 -sample 1x1 -arithmetic -outfile arithmetic.jpg rgb.ppm
cwebp -quiet -q 90 rgb.png -o lossy.webp
cwebp -quiet -q 90 rgba.png -o lossy-alpha.webp
cwebp -quiet -lossless -exact rgba.png -o lossless.webp
convert -size 1600x1200 plasma:green-yellow -fill none -stroke black -draw 'line 0,0 1599,1199' -quality 92 large.jpg
pngs=(rgb rgba grey grey-alpha palette interlaced deep bits clear)

# --- helpers ---

# is NAME CONDITION...: the last command of got() has succeeded and the condition holds.
is() {
  if [ "$(cat "$work.got.status")" = 0 ] && "${@:2}"; then
    good "$1"
  else
    bad "$1"
    head -c 500 "$work.got.err" >&2
  fi
}
size_of() { # FILE WIDTHxHEIGHT
  [ "$(identify -format %wx%h "$1")" = "$2" ] || {
    echo "$1 has $(identify -format %wx%h "$1") pixels, not $2" >&2
    return 1
  }
}
# near FILE OTHER DECIBELS: both have one size, and differ by no more. convert puts other colours behind what is transparent.
near() {
  local said
  said=$(compare -metric PSNR -background black -alpha "$([ "$(identify -format %A "$1")" = Blend ] && echo background || echo on)" \
    "$1" "$2" null: 2>&1) || [ $? = 1 ] || return 1
  [ "$said" = inf ] || awk -v said="$said" -v least="$3" 'BEGIN { exit !(said + 0 >= least) }' || {
    echo "$said dB, not $3" >&2
    return 1
  }
}
pixels() { # FILE: each one, also those that are transparent
  case $1 in
    *.webp) dwebp -quiet "$1" -pam -o "$1.pam" && convert "$1.pam" -depth 8 rgba:- ;;
    *) convert "$1" -depth 8 rgba:- ;;
  esac
}
same_pixels() { # FILE OTHER
  cmp <(pixels "$1") <(pixels "$2") >&2
}
# says NAME WORDS FUNCTION ARG...: refused with status 1, without output and with these words.
says() {
  refused "$1" 1 "${@:3}"
  grep -q -e "$2" "$work.got.err" || {
    bad "$1: words"
    cat "$work.got.err" >&2
  }
}

# --- sizes ---

resizes() { # FILE CONVERT-GEOMETRY OPTION...: as convert does it
  local file=$1 geometry=$2 least=47
  shift 2
  [[ $file != *.jpg ]] || least=40 # a decoder may have divided it; a filter of two lobes comes to 45
  got image:resize --format png "$@" "$file"
  mv "$work.got" got.png
  # shellcheck disable=SC2086 # a geometry may bring further words
  convert "$file" -filter Lanczos -resize $geometry want.png
  is "resize $* of $file" eval 'size_of got.png "$(identify -format %wx%h want.png)" && near got.png want.png '$least
}
for file in "${pngs[@]/%/.png}" rgb.jpg progressive.jpg grey.jpg arithmetic.jpg lossy.webp lossy-alpha.webp lossless.webp; do
  resizes "$file" 200x --width 200
done
for file in rgb.png rgba.png rgb.jpg; do
  resizes "$file" x90 --height=90
  resizes "$file" 300x100 --width 300 --height 100
  resizes "$file" '300x100!' --width 300 --height 100 --fit fill
  resizes "$file" '300x100^ -background none -gravity center -extent 300x100' --width 300 --height 100 --fit cover
  resizes "$file" '100x300^ -background none -gravity center -extent 100x300' --width 100 --height 300 --fit=cover
  resizes "$file" 450x --width 450
  resizes "$file" 1x --width 1
done
resizes large.jpg 700x --width 700
resizes large.jpg 300x --width 300
resizes large.jpg 150x150 --width 150 --height 150 --fit inside
got image:resize --width 301 rgb.png
mv "$work.got" got.png
is "resize to the same size changes no pixel" same_pixels got.png rgb.png

by_workers() {
  got image:resize --width 700 --format png large.jpg
  [ -e first.png ] || cp "$work.got" first.png
  is "each number of workers makes the same picture" cmp first.png "$work.got"
}
for_workers by_workers

# --- formats ---

for name in "${pngs[@]}"; do
  got image:convert --format webp "$name.png"
  mv "$work.got" got.webp
  if [ "$name" = deep ]; then # 16 bits are rounded in two ways
    dwebp -quiet got.webp -o deep.png
    convert -size 301x225 gradient:red-blue -depth 8 deep8.png
    is "16 bits become 8" near deep.png deep8.png 50
  fi
  is "$name.png to WebP keeps each pixel" same_pixels got.webp "$name.png"
  got image:convert --format png got.webp
  mv "$work.got" got.png
  is "$name.png to WebP and back keeps each pixel" same_pixels got.png "$name.png"
done
got image:convert --format png lossless.webp
mv "$work.got" got.png
is "a lossless WebP to PNG keeps each pixel" same_pixels got.png lossless.webp
got image:convert --format webp lossless.webp
mv "$work.got" got.webp
is "a lossless WebP stays one" same_pixels got.webp lossless.webp
for name in rgb progressive grey arithmetic; do
  djpeg -pnm -outfile want.pnm "$name.jpg"
  got image:convert --format png "$name.jpg"
  mv "$work.got" got.png
  is "$name.jpg has the pixels that djpeg sees" same_pixels got.png want.pnm
done
for format in jpeg jpg webp; do
  got image:convert --format "$format" --quality 95 rgb.png
  cp "$work.got" "got.$format"
  is "a picture to $format looks the same" near "got.$format" rgb.png 28
done
is "--quality 95 is larger than --quality 20" eval \
  'got image:convert --format jpeg --quality 20 rgb.png; [ "$(stat -c %s "$work.got")" -lt "$(stat -c %s got.jpeg)" ]'
is "WebP of a given quality is lossy" eval '[ "$(stat -c %s got.webp)" -lt "$(stat -c %s lossless.webp)" ]'
convert rgba.png -background white -flatten want.png
got image:convert --format jpeg --quality 100 rgba.png
mv "$work.got" got.jpg
is "what is transparent becomes white in a JPEG" near got.jpg want.png 35
convert -size 20x20 xc:'#00ff0000' clear20.png
got image:convert --format jpeg --quality 100 clear20.png
mv "$work.got" got.jpg
is "what nobody sees becomes white, too" eval '[ "$(convert got.jpg -scale 1x1 -format "%[hex:p{0,0}]" info:)" = FFFFFF ]'
got image:resize --width 300 rgb.jpg
is "the format is that of the input" eval '[ "$(identify -format %m "$work.got")" = JPEG ]'
cp "$work.got" by-name.jpg
options=(--input rgb.jpg)
got image:resize --width 300
is "the input is taken, too" cmp by-name.jpg "$work.got"
got image:resize --width 300 -
options=()
is "the input by its name -" cmp by-name.jpg "$work.got"
got image:resize --width 300 -- rgb.jpg
is "-- ends the options" cmp by-name.jpg "$work.got"

# --- thumbnails ---

# oriented FILE N: as a camera writes it, with a comment that nobody else sees.
oriented() {
  python3 - "$1" "$2" <<'END'
import struct, sys
data = open('rgb.jpg', 'rb').read()
order = '<' if int(sys.argv[2]) % 2 else '>'
tiff = (b'II*\0' if order == '<' else b'MM\0*') + struct.pack(order + 'IH', 8, 2)
tiff += struct.pack(order + 'HHIHH', 0x10f, 3, 1, 7, 0) + struct.pack(order + 'HHIHH', 0x112, 3, 1, int(sys.argv[2]), 0) + bytes(4)
app1 = b'Exif\0\0' + tiff
open(sys.argv[1], 'wb').write(data[:2] + b'\xff\xe1' + struct.pack('>H', len(app1) + 2) + app1 + data[2:])
END
}
for n in 1 2 3 4 5 6 7 8; do
  oriented turned.jpg "$n"
  convert turned.jpg -auto-orient turned.png
  convert turned.png -filter Lanczos -resize 200x200 want.png
  got image:thumbnail 200 --format png turned.jpg
  mv "$work.got" got.png
  is "thumbnail of orientation $n" near got.png want.png 40
  got image:resize --width 150 --height 50 --fit fill --format png turned.jpg
  mv "$work.got" got.png
  convert turned.png -filter Lanczos -resize '150x50!' want.png
  is "resize of orientation $n" near got.png want.png 40
  got image:convert --format png turned.jpg
  mv "$work.got" got.png
  is "convert of orientation $n" same_pixels got.png turned.png
done
oriented turned.jpg 9
djpeg -pnm -outfile want.pnm rgb.jpg
got image:convert --format png turned.jpg
mv "$work.got" got.png
is "an orientation that there is not" same_pixels got.png want.pnm
got image:thumbnail 100 turned.jpg
is "no metadata is left" eval '! grep -q -a Exif "$work.got"'
got image:thumbnail 128 --format png large.jpg
mv "$work.got" got.png
convert large.jpg -filter Lanczos -resize 128x128 want.png
is "thumbnail of a large JPEG" near got.png want.png 40
got image:thumbnail 301 rgb.png
mv "$work.got" got.png
is "a thumbnail of its own size" same_pixels got.png rgb.png
got image:thumbnail 5000 rgb.png
mv "$work.got" got.png
is "a thumbnail is never larger" same_pixels got.png rgb.png
got image:thumbnail 300 rgb.png
is "a thumbnail that is one pixel smaller" size_of "$work.got" 300x224
got image:thumbnail 1 rgb.png
is "a thumbnail of one pixel" size_of "$work.got" 1x1

# --- edges ---

convert -size 1x1 xc:'#123456' one.png
for format in jpeg png webp; do
  got image:convert --format "$format" one.png
  mv "$work.got" "one.$format"
  is "one pixel as $format" size_of "one.$format" 1x1
  got image:resize --width 3 --format png "one.$format"
  is "one pixel of $format becomes nine" size_of "$work.got" 3x3
done
# The picture as bytes, for sizes that convert's policy refuses.
png() { # WIDTH HEIGHT [ROWS]: grey, 1 bit; of so many rows, where there are fewer
  python3 -c '
import struct, sys, zlib
width, height, rows = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[-1])
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
sys.stdout.buffer.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)) +
    chunk(b"IDAT", zlib.compress(bytes(width // 8 + 1 + (width % 8 > 0)) * rows)) + chunk(b"IEND", b""))' "$@"
}
png 65535 2 >wide.png
got image:resize --width 100 --height 5 --fit fill wide.png
is "65535 pixels a side are taken" size_of "$work.got" 100x5
png 2 65535 >tall.png
got image:resize --width 5 --height 100 --fit fill tall.png
is "65535 rows, too" size_of "$work.got" 5x100
# From wide to tall, and back: the other order of rows and columns takes minutes for the third.
convert -seed 7 -size 2000x10 plasma:red-blue -depth 8 flat.png
resizes flat.png '10x2000!' --width 10 --height 2000 --fit fill
convert flat.png -rotate 90 steep.png
resizes steep.png '2000x10!' --width 2000 --height 10 --fit fill
# The largest sizes take half a GiB.
png 65535 2048 >most.png
sanitized || got image:resize --width 2048 --height 65535 --fit fill --format png most.png
sanitized || is "from 65535 x 2048 to 2048 x 65535 pixels" eval '[ "$(od -An -tx1 -j 16 -N 8 "$work.got" | tr -d " ")" = 000008000000ffff ]'
png 65536 1 >wider.png
says "65536 are not" '65536 x 1 pixels; at most 65535 a side' image:convert --format png wider.png
says "no JPEG is so wide" 'jpeg has at most 65500 pixels a side; .*--format png' image:convert --format jpeg wide.png
says "no WebP is so wide" 'webp has at most 16383 pixels a side; .*--format png' image:convert --format webp wide.png
png 65535 2049 1 >bomb.png
says "a header that claims too much" 'at most 65535 a side and 134217728 altogether' image:thumbnail 10 bomb.png
says "a result that is too large" 'it would become 65535 x 48988 pixels; at most' image:resize --width 65535 rgb.png
# claims FILE OFFSET BYTES...: the file with other bytes there, in hexadecimal, as bomb.
claims() {
  cp "$1" bomb
  printf '%b' "${@:3}" | dd of=bomb bs=1 seek="$2" conv=notrunc status=none
}
size_in() { # JPEG: where its frame header has height and width
  python3 -c 'import re, sys; print(re.search(b"\xff[\xc0-\xc2]\0[\x0b\x11]\x08", open(sys.argv[1], "rb").read()).end())' "$1"
}
claims rgb.jpg "$(size_in rgb.jpg)" '\xff\xdc\xff\xdc'
says "a JPEG that claims too much" '65500 x 65500 pixels; at most' image:thumbnail 10 bomb
cjpeg -progressive -sample 1x1 -outfile whole.jpg rgb.ppm
claims whole.jpg "$(size_in whole.jpg)" '\x2a\xf8\x2a\xf8'
says "a progressive JPEG that takes too much memory" 'takes more than 512 MiB; save it as a baseline' image:thumbnail 10 bomb
claims lossy.webp 26 '\xff\x3f\xff\x3f'
says "a WebP that claims too much" '16383 x 16383 pixels; at most' image:thumbnail 10 bomb
# cjpeg makes 100 scans at most; the last one may come twice.
{
  echo '0,1,2: 0-0, 0, 0;'
  for ((i = 0; i < 99; i++)); do echo "$((i / 63)): $((i % 63 + 1))-$((i % 63 + 1)), 0, 0;"; done
} >scans
cjpeg -scans scans -outfile scans.jpg rgb.ppm
got image:thumbnail 50 scans.jpg
is "100 scans are taken" size_of "$work.got" 50x37
python3 -c 'data = open("scans.jpg", "rb").read(); open("bomb", "wb").write(data[:-2] + data[data.rindex(b"\xff\xda"):])'
says "101 scans are not" 'more than 100 scans; save it as a baseline' image:thumbnail 50 bomb

# --- what is refused ---

says "no size" 'no size: give --width' image:resize rgb.png
says "no format" 'no format: give --format' image:convert rgb.png
says "no SIZE" 'SIZE is a number from 1 to 65535' image:thumbnail rgb.png
for wrong in 0 65536 -1 x 1.5 '' 99999999999; do
  says "a width of '$wrong'" '--width takes a number from 1 to 65535' image:resize "--width=$wrong" rgb.png
done
for wrong in 0 101 x; do
  says "a quality of $wrong" '--quality takes a number from 1 to 100' image:convert --format jpeg --quality "$wrong" rgb.png
done
for right in 1 100; do
  got image:convert --format jpeg --quality "$right" rgb.png
  is "a quality of $right" size_of "$work.got" 301x225
done
says "a format that there is not" '--format takes jpeg, png or webp' image:convert --format gif rgb.png
says "a fit that there is not" '--fit takes inside, cover or fill' image:resize --width 5 --fit round rgb.png
says "an option that there is not" "unrecognized option '--frobnicate'; usage: resize" image:resize --frobnicate 1 rgb.png
says "an option of another function" "unrecognized option '--width'; usage: thumbnail" image:thumbnail 5 --width 5 rgb.png
says "no value" "no value behind '--width'" image:resize --width
says "two files" "more than is taken: 'grey.png'" image:resize --width 5 rgb.png grey.png
says "a quality for PNG" 'png loses nothing: leave out --quality' image:convert --format png --quality 5 rgb.png
says "a file that is not there" 'missing: No such file' image:thumbnail 5 missing
says "a folder" 'Is a directory' image:thumbnail 5 .
no_file "a device" 1 image:thumbnail 5 /dev/zero
: >empty
says "an empty file" 'it is empty; JPEG, PNG and WebP' image:thumbnail 5 empty
says "no input" 'input: it is empty' image:thumbnail 5
says "a file of another kind" 'a file of another kind; JPEG, PNG and WebP' image:thumbnail 5 "$here/image.sh"
convert rgb.png -colorspace CMYK cmyk.jpg
says "a CMYK JPEG" 'CMYK JPEG.*convert it to sRGB' image:thumbnail 5 cmyk.jpg
convert -size 20x20 xc:red xc:blue -loop 0 animated.webp
says "an animated WebP" 'an animated WebP; take one picture' image:thumbnail 5 animated.webp

# 700 MB of text that a picture of one pixel says it has, and a long name.
python3 - <<'EOF' >/dev/null
import struct, zlib
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
text = chunk(b"zTXt", b"a\0\0" + zlib.compress(b"x" * 7000000, 9))
with open("texts.png", "wb") as f:
    f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + text * 100 +
            chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b""))
EOF
peak() { # FILE: of a run, in KiB
  # RUN is a command with its arguments.
  # shellcheck disable=SC2086
  python3 -c 'import resource, subprocess, sys
print(subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' \
    $RUN "$PLUGINS/image.so:thumbnail" 5 "$1"
}
takes_little() { # FILE
  local status kib
  [ -n "${PLUGINS:-}" ] || return 0 # what wsctl takes says nothing
  read -r status kib < <(peak "$1")
  echo "status $status, $kib KiB" >&2
  [ "$status" = 0 ] && [ "$kib" -lt 200000 ]
}
got image:thumbnail 5 texts.png
is "texts of a PNG take no memory" takes_little texts.png
mkdir -p "$(printf '%0200d/%0200d' 0 0)"
says "a long name leaves room for the reason" '\.\.\..*: No such file' image:thumbnail 5 "$(printf '%0200d/%0200d' 0 0)/missing"

# Files of 512 MiB are taken.
cp rgb.png full.png
truncate -s 512M full.png
sanitized || got image:thumbnail 30 full.png
sanitized || is "a file of 512 MiB" size_of "$work.got" 30x22
truncate -s $((512 * 1048576 + 1)) full.png
says "a file of a byte more" 'full.png: more than 512 MiB; save it smaller' image:thumbnail 30 full.png
if [ -n "${PLUGINS:-}" ]; then # no connection carries so much
  options=(--input full.png)
  says "an input of a byte more" 'input: more than 512 MiB; save it smaller' image:thumbnail 30
  truncate -s 512M full.png
  sanitized || got image:thumbnail 30
  options=()
  sanitized || is "an input of 512 MiB" size_of "$work.got" 30x22
fi
rm full.png

# heeds NAME MSEC FUNCTION ARG...: the work of many seconds ends when its time is up.
heeds() {
  options=(--timeout "$2ms")
  AS='timeout -s KILL 60' got "${@:3}"
  options=()
  if [ "$(cat "$work.got.status")" = 124 ] && ! grep -q 'did not heed' "$work.got.err"; then good "$1"; else bad "$1"; fi
}
# Noise, which a lossless format looks at for long.
python3 -c 'import os, struct, zlib
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
open("noise.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 3000, 3000, 8, 2, 0, 0, 0)) +
    chunk(b"IDAT", zlib.compress(b"".join(b"\0" + os.urandom(9000) for _ in range(3000)), 1)) + chunk(b"IEND", b""))'
heeds "encoding ends when its time is up" 2000 image:convert --format webp noise.png
heeds "resizing ends when its time is up" 500 image:resize --width 11000 --format png noise.png

# In a PNG each byte counts.
wrong=0 size=$(stat -c %s rgb.png)
for n in 9 20 30 $((size / 4)) $((size / 2)) $((size * 3 / 4)) $((size - 3)); do
  cp rgb.png damaged
  printf '%b' "\\x$(printf %02x $((0x$(od -An -tx1 -j "$n" -N 1 rgb.png | tr -d ' ') ^ 0x55)))" | dd of=damaged bs=1 seek="$n" conv=notrunc status=none
  got image:thumbnail 50 damaged
  if [ "$(cat "$work.got.status")" != 1 ] || [ -s "$work.got" ]; then
    echo "byte $n: status $(cat "$work.got.status")" >&2
    wrong=$((wrong + 1))
  fi
done
if [ "$wrong" = 0 ]; then good "a PNG with a byte that was changed"; else bad "a PNG with a byte that was changed: $wrong"; fi

# A picture that is cut short is never a picture.
# Through wsd one of each format.
files=(rgb.jpg rgb.png lossy.webp)
[ -z "${PLUGINS:-}" ] || files+=(progressive.jpg interlaced.png lossless.webp lossy-alpha.webp)
for file in "${files[@]}"; do
  size=$(stat -c %s "$file") wrong=0
  places=(8 40 $((size / 2)) $((size - 3)))
  [ -z "${PLUGINS:-}" ] || places+=(3 12 20 30 100 300 $((size / 4)) $((size * 3 / 4)) $((size - 300)) $((size - 20)) $((size - 10)))
  for n in "${places[@]}"; do
    head -c "$n" "$file" >damaged
    got image:thumbnail 50 damaged
    if [ "$(cat "$work.got.status")" != 1 ] || [ -s "$work.got" ]; then
      echo "$file, the first $n bytes: status $(cat "$work.got.status")" >&2
      wrong=$((wrong + 1))
    fi
  done
  if [ "$wrong" = 0 ]; then good "$file, cut short"; else bad "$file, cut short"; fi
done
finish
