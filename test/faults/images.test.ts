/** Which files a disk can hold after a power cut, by traces of a few lines. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { cutLines, cutsAt, writeImage } from './images.ts';
import { BEGIN, readTrace, TraceFile } from './trace.ts';

const hex = (text: string) =>
  Array.from(Buffer.from(text), (byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
const file = (fd: number, name: string) => `${fd}<${hex(`/disk/${name}`)}>`;
const open = (fd: number, name: string, flags: string) =>
  `7  openat(AT_FDCWD<${hex('/')}>, "${hex(`/disk/${name}`)}", ${flags}) = ${file(fd, name)}`;
const begun = `7  write(2<${hex('pipe:[1]')}>, "${hex(BEGIN)}", ${BEGIN.length}) = ${BEGIN.length}`;

/** The files of every image, `name: content`, of a disk with the file `a` that has `old`. */
function imagesOf(t: Test, ...calls: string[]): Set<string> {
  const dir = t.testdir({ base: { a: 'old' } });
  const recording = readTrace([begun, ...calls], '/disk', join(dir, 'base'));
  const found = new Set<string>();
  for (const line of cutLines(recording)) {
    for (const cut of cutsAt(recording, line, () => 0.5, 0)) {
      const image = join(dir, `image-${found.size}-${line}-${cut.kept.replaceAll(' ', '_')}`);
      mkdirSync(image);
      writeImage(recording, cut, image);
      found.add(
        readdirSync(image)
          .sort()
          .map((name) => `${name}: ${readFileSync(join(image, name))}`)
          .join(', '),
      );
    }
  }
  return found;
}

t.test('a trace is read from its file line by line, whatever the lengths of the lines', async (t) => {
  const lines = [
    '',
    'a',
    'b'.repeat(3_000_000),
    '',
    'c'.repeat(2 ** 20 - 2),
    'd'.repeat(2 ** 20 - 1),
    'e',
    '',
  ];
  const dir = t.testdir({ trace: lines.join('\n') });
  const trace = new TraceFile(join(dir, 'trace'));
  for (const _ of ['first', 'second']) t.strictSame([...trace], lines);
});

t.test('a flushed write is there, and an unflushed one may or may not be', async (t) => {
  const write = `7  pwrite64(${file(3, 'a')}, "${hex('new')}", 3, 0) = 3`;
  t.strictSame(imagesOf(t, open(3, 'a', 'O_RDWR'), write), new Set(['a: old', 'a: new']));
  const flushed = imagesOf(
    t,
    open(3, 'a', 'O_RDWR'),
    write,
    `7  fdatasync(${file(3, 'a')}) = 0`,
    `7  pwrite64(${file(3, 'a')}, "${hex('!')}", 1, 3) = 1`,
  );
  t.strictSame(flushed, new Set(['a: old', 'a: new', 'a: new!']));
});

t.test('a flush does not cover a write that ends after it began', async (t) => {
  const images = imagesOf(
    t,
    open(3, 'a', 'O_RDWR'),
    `8  pwrite64(${file(3, 'a')}, "${hex('new')}", 3, 0 <unfinished ...>`,
    `7  fdatasync(${file(3, 'a')} <unfinished ...>`,
    '8  <... pwrite64 resumed>) = 3',
    '7  <... fdatasync resumed>) = 0',
  );
  t.ok(images.has('a: old'));
});

t.test('a write through a synchronous descriptor is there when it returns', async (t) => {
  const images = imagesOf(
    t,
    open(3, 'a', 'O_WRONLY|O_DSYNC'),
    `7  pwrite64(${file(3, 'a')}, "${hex('new')}", 3, 0) = 3`,
    open(4, 'a', 'O_WRONLY|O_APPEND'),
    `7  write(${file(4, 'a')}, "${hex('!')}", 1) = 1`,
  );
  t.strictSame(images, new Set(['a: old', 'a: new', 'a: new!']));
});

t.test('another process that reads a file changes nothing about who writes it, and how', async (t) => {
  const write = `8  pwrite64(${file(3, 'a')}, "${hex('new')}", 3, 0) = 3`;
  const reader = open(3, 'a', 'O_RDONLY').replace(/^7/, '9');
  const made = [
    '7  clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} <unfinished ...>',
    open(3, 'a', 'O_RDWR|O_DSYNC').replace(/^7/, '8'),
    '7  <... clone3 resumed> => {parent_tid=[8]}, 88) = 8',
    '7  clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 9',
    reader,
  ];
  const after = `7  pwrite64(${file(3, 'a')}, "${hex('!')}", 1, 3) = 1`;
  t.strictSame(
    imagesOf(t, ...made, write, after),
    new Set(['a: old', 'a: new', 'a: new!']),
    'of two threads',
  );
  const inherited = [
    open(3, 'a', 'O_RDWR|O_DSYNC'),
    '7  clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 8',
    write,
    `8  pwrite64(${file(3, 'a')}, "${hex('!')}", 1, 3) = 1`,
  ];
  t.strictSame(
    imagesOf(t, ...inherited),
    new Set(['a: old', 'a: new', 'a: new!']),
    'a descriptor of its parent',
  );
});

t.test('a file and its name reach the disk independently', async (t) => {
  const make = [
    open(3, 'b.new', 'O_WRONLY|O_CREAT'),
    `7  write(${file(3, 'b.new')}, "${hex('whole')}", 5) = 5`,
    `7  fsync(${file(3, 'b.new')}) = 0`,
    `7  rename("${hex('/disk/b.new')}", "${hex('/disk/b')}") = 0`,
  ];
  const images = imagesOf(t, ...make);
  for (const image of ['a: old', 'a: old, b.new: ', 'a: old, b.new: whole', 'a: old, b: whole'])
    t.ok(images.has(image), image);
  t.notOk(images.has('a: old, b: '), 'the file was flushed before it got its name');
  const last = `7  fsync(5<${hex('/disk')}>) = 0`;
  const after = imagesOf(t, ...make, last, `7  write(${file(3, 'b')}, "${hex('!')}", 1) = 1`);
  t.ok(after.has('a: old, b: whole'));
});

t.test('a system call that is not understood is an error', async (t) => {
  const dir = t.testdir({ base: { a: 'old' } });
  writeFileSync(join(dir, 'base', 'c'), '');
  const lines = [begun, open(3, 'a', 'O_RDWR'), `7  fallocate(${file(3, 'a')}, 0, 0, 9) = 0`];
  t.throws(() => readTrace(lines, '/disk', join(dir, 'base')), /not understood/);
});
