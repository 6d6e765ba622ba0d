/**
 * What processes did to the files below a folder, and what they said to others meanwhile, read from the output of strace. One trace has all
 * processes that write, so its lines give one order of everything: a call begins at a line and ends at a line.
 */
import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** Every string is whole, and in hex. */
export const STRACE = [
  ...['strace', '-f', '--seccomp-bpf', '-y', '-v', '-xx', '-s', '16777216', '-e', 'signal=none', '-e'],
  'trace=clone,clone3,fork,vfork,openat,creat,lseek,write,writev,pwrite64,pwritev,ftruncate,fallocate,copy_file_range,sendfile,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,rmdir,mkdir,mkdirat',
];

/** What a traced process writes to standard error before the first call that counts, and once a command has kept its promise. */
export const BEGIN = 'the recording begins\n';
export const PROMISED = 'promised: ';

/** A file or a folder, whatever its names are, as it was on disk at the beginning. */
export interface Inode {
  bytes: Buffer;
  /** Of a folder. */
  names?: Map<string, Inode>;
}

/** Something that is on disk for sure only after a flush. */
export interface Change {
  /** Lines of the trace: nothing of it is on disk before the first. */
  begin: number;
  end: number;
  /** The line after which it is on disk whatever happens. */
  flushed?: number;
  /** The inode whose flush puts it there: the file, or the folder of the name. */
  inode: Inode;
  write?: { offset: number; data: Buffer };
  truncate?: number;
  /** Names that appear, or disappear where there is no inode: all at once. */
  names?: { folder: Inode; name: string; inode: Inode | undefined }[];
}

export interface Recording {
  root: Inode;
  changes: Change[];
  /** What left a process, to a socket or to standard error, and the line at which it began to. */
  said: { line: number; text: string }[];
}

/** The lines of a file that can be larger than a string. */
export class TraceFile implements Iterable<string> {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  *[Symbol.iterator](): Iterator<string> {
    const file = openSync(this.#path, 'r');
    const buffer = Buffer.alloc(READ_BYTES);
    try {
      let begun = '';
      for (let bytes = readSync(file, buffer); bytes > 0; bytes = readSync(file, buffer)) {
        const [first = '', ...others] = buffer.toString('latin1', 0, bytes).split('\n');
        begun += first;
        for (const line of others) {
          yield begun;
          begun = line;
        }
      }
      yield begun;
    } finally {
      closeSync(file);
    }
  }
}

const READ_BYTES = 1 << 20;

interface Opened {
  position: number;
  flags: string;
}

interface Call {
  thread: string;
  name: string;
  /** As strace writes them. */
  args: string;
  /** The path of the first argument if that is a descriptor. */
  path: string;
  begin: number;
  end: number;
  result: number;
}

/** Goes through the lines twice. Throws for what it does not understand: a call that is passed over would make images that cannot be. */
export function readTrace(lines: Iterable<string>, folder: string, base: string): Recording {
  const recorder = new Recorder(folder, base, makersOf(callsOf(lines)));
  const said: Recording['said'] = [];
  let hasBegun = false;
  for (const call of callsOf(lines)) {
    const isSaid =
      /^writev?$/.test(call.name) && (call.path.startsWith('socket:') || call.args.startsWith('2<'));
    const text = isSaid ? Buffer.concat(stringsOf(call)).toString() : '';
    if (text === BEGIN) hasBegun = true;
    else if (!hasBegun || call.result < 0) continue;
    else if (isSaid) said.push({ line: call.begin, text });
    else recorder.record(call);
  }
  if (!hasBegun) throw new Error('the trace has no beginning');
  return { root: recorder.root, changes: recorder.changes, said };
}

/** The calls that returned, in the order in which they did. */
function* callsOf(lines: Iterable<string>): Iterable<Call> {
  const unfinished = new Map<string, { text: string; begin: number }>();
  let line = -1;
  for (const whole of lines) {
    line += 1;
    const thread = whole.slice(0, whole.indexOf(' '));
    const rest = whole.slice(thread.length).trimStart();
    if (rest.endsWith('<unfinished ...>')) {
      unfinished.set(thread, { text: rest.slice(0, -'<unfinished ...>'.length), begin: line });
      continue;
    }
    const before = rest.startsWith('<... ') ? unfinished.get(thread) : undefined;
    const text = before ? before.text + rest.slice(rest.indexOf('resumed>') + 'resumed>'.length) : rest;
    const close = text.lastIndexOf(') ');
    const [, result] = /^\)\s+= (-?\d+)/.exec(text.slice(close)) ?? [];
    if (result === undefined) continue;
    const open = text.indexOf('(');
    const args = text.slice(open + 1, close);
    const path = fromHex(/^\w+<([^>]*)>/.exec(args)?.[1] ?? '').toString();
    yield {
      thread,
      name: text.slice(0, open),
      args,
      path,
      begin: before?.begin ?? line,
      end: line,
      result: Number(result),
    };
  }
}

/**
 * The thread that made each thread, and whether both have the same descriptors; otherwise, the new one is a process, with copies of those that were open.
 * A new thread can be in the trace before the call that made it returns.
 */
type Makers = ReadonlyMap<string, { thread: string; isOneProcess: boolean }>;

function makersOf(calls: Iterable<Call>): Makers {
  const makers = new Map<string, { thread: string; isOneProcess: boolean }>();
  for (const { thread, name, args, result } of calls)
    if (/^(?:clone3?|v?fork)$/.test(name) && result > 0)
      makers.set(`${result}`, { thread, isOneProcess: args.includes('CLONE_FILES') });
  return makers;
}

/** Those among the arguments. */
function stringsOf({ args }: Call): Buffer[] {
  return Array.from(args.matchAll(/"([^"]*)"/g), ([, hex = '']) => fromHex(hex));
}

function fromHex(escaped: string): Buffer {
  return Buffer.from(escaped.replaceAll('\\x', ''), 'hex');
}

/** Follows the names and lengths that processes see, so that each call is understood as they meant it. */
class Recorder {
  readonly root: Inode;
  readonly changes: Change[] = [];
  readonly #byPath = new Map<string, Inode>();
  /** Of each process, descriptor and path: where it writes next, and how it was opened. */
  readonly #opened = new Map<string, Opened>();
  readonly #makers: Makers;

  constructor(folder: string, base: string, makers: Makers) {
    this.root = readTree(base);
    this.#makers = makers;
    this.#place(folder, this.root);
  }

  record(call: Call): void {
    const { name, path } = call;
    const inode = this.#byPath.get(path);
    if (name === 'openat' || name === 'creat') this.#open(call);
    else if (/^(?:rename|link|unlink|rmdir|mkdir)/.test(name)) this.#changeNames(call);
    else if (name === 'copy_file_range') this.#copy(call);
    else if (inode !== undefined) this.#recordOpen(inode, call);
  }

  #recordOpen(inode: Inode, call: Call): void {
    const { name, path, args, result } = call;
    const opened = this.#openedAs(call.thread, Number.parseInt(args, 10), path) ?? { position: 0, flags: '' };
    if (name === 'lseek') opened.position = result;
    else if (name === 'fsync' || name === 'fdatasync') this.#flush(inode, call);
    else if (name === 'ftruncate') this.#add(call, { inode, truncate: Number(args.split(', ')[1]) });
    else if (/^(?:writev?|pwrite64|pwritev)$/.test(name)) {
      const isAt = name.startsWith('pwrite');
      const end = opened.flags.includes('O_APPEND') ? this.contentOf(inode).length : opened.position;
      const offset = isAt ? Number(args.split(', ').at(-1)) : end;
      if (!isAt) opened.position = offset + result;
      const data = Buffer.concat(stringsOf(call)).subarray(0, result);
      const isSync = /O_D?SYNC/.test(opened.flags);
      this.#add(call, { inode, write: { offset, data }, ...(isSync && { flushed: call.end }) });
    } else throw new Error(`the trace has ${name} of ${path}, which is not understood`);
  }

  /** All that was written to a file, flushed or not. */
  contentOf(inode: Inode): Buffer {
    return contentOf(
      inode,
      this.changes.filter((change) => change.inode === inode),
    );
  }

  /** Of two open files, from where they stand. */
  #copy({ args, result, ...call }: Call): void {
    const [from, to] = Array.from(args.matchAll(/(\d+)<([^>]*)>/g), ([, descriptor, hex = '']) => {
      const path = fromHex(hex).toString();
      return { inode: this.#byPath.get(path), opened: this.#openedAs(call.thread, Number(descriptor), path) };
    });
    if (to?.inode === undefined || !to.opened || result === 0) return;
    if (from?.inode === undefined || !from.opened || !args.includes('NULL'))
      throw new Error(`not understood: ${args}`);
    const data = this.contentOf(from.inode).subarray(from.opened.position, from.opened.position + result);
    this.#add(call, { inode: to.inode, write: { offset: to.opened.position, data } });
    from.opened.position += result;
    to.opened.position += result;
  }

  #open(call: Call): void {
    const { args, result } = call;
    const path = stringsOf(call)[0]?.toString() ?? '';
    this.#opened.set(`${this.#processOf(call.thread)} ${result} ${path}`, { position: 0, flags: args });
    const known = this.#byPath.get(path);
    if (known !== undefined && args.includes('O_TRUNC')) this.#add(call, { inode: known, truncate: 0 });
    if (known === undefined && args.includes('O_CREAT'))
      this.#name(call, [{ path, inode: { bytes: Buffer.alloc(0) } }]);
  }

  /** By the process of that thread, or by the one from which it inherits the descriptor. */
  #openedAs(thread: string, descriptor: number, path: string): Opened | undefined {
    const process = this.#processOf(thread);
    const opened = this.#opened.get(`${process} ${descriptor} ${path}`);
    const maker = this.#makers.get(process);
    return opened ?? (maker && this.#openedAs(maker.thread, descriptor, path));
  }

  /** Its first thread. */
  #processOf(thread: string): string {
    const maker = this.#makers.get(thread);
    return maker?.isOneProcess ? this.#processOf(maker.thread) : thread;
  }

  #changeNames(call: Call): void {
    const [from = '', to = ''] = stringsOf(call).map(String);
    const isFolder = call.name.startsWith('mkdir');
    const inode = isFolder ? { bytes: Buffer.alloc(0), names: new Map() } : this.#byPath.get(from);
    if (inode === undefined) return;
    const gone = { path: from, inode: undefined };
    if (isFolder) this.#name(call, [{ path: from, inode }]);
    else if (call.name.startsWith('link')) this.#name(call, [{ path: to, inode }]);
    else if (!call.name.startsWith('rename')) this.#name(call, [gone]);
    else {
      this.#name(call, [gone, { path: to, inode }]);
      for (const [path, below] of [...this.#byPath].filter(([path]) => path.startsWith(`${from}/`))) {
        this.#byPath.delete(path);
        this.#byPath.set(to + path.slice(from.length), below);
      }
    }
  }

  /** Names outside of the folder are on no disk that counts. */
  #name(call: Pick<Call, 'begin' | 'end'>, given: { path: string; inode: Inode | undefined }[]): void {
    const names = given.flatMap(({ path, inode }) => {
      const folder = this.#byPath.get(dirname(path));
      if (folder === undefined) return [];
      if (inode) this.#byPath.set(path, inode);
      else this.#byPath.delete(path);
      return [{ folder, name: basename(path), inode }];
    });
    const inode = names.at(-1)?.folder;
    if (inode !== undefined) this.#add(call, { inode, names });
  }

  #add({ begin, end }: Pick<Call, 'begin' | 'end'>, change: Omit<Change, 'begin' | 'end'>): void {
    this.changes.push({ begin, end, ...change });
  }

  /** A flush covers what ended before it began. */
  #flush(inode: Inode, { begin, end }: Call): void {
    for (const change of this.changes)
      if (change.inode === inode && change.end < begin) change.flushed ??= end;
  }

  #place(path: string, inode: Inode): void {
    this.#byPath.set(path, inode);
    for (const [name, below] of inode.names ?? []) this.#place(join(path, name), below);
  }
}

/** A folder as it is now. Tokens are left out: they are in the HSM, whose power is its own. */
function readTree(path: string): Inode {
  const names = new Map<string, Inode>();
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const below = join(path, entry.name);
    if (entry.isDirectory() && !entry.name.startsWith('token-')) names.set(entry.name, readTree(below));
    else if (entry.isFile()) names.set(entry.name, { bytes: readFileSync(below) });
  }
  return { bytes: Buffer.alloc(0), names };
}

/** A file after these changes to it. What was never written reads as zeros. */
export function contentOf({ bytes }: Inode, changes: readonly Change[]): Buffer {
  const length = changes.reduce(
    (most, { write }) => Math.max(most, write ? write.offset + write.data.length : 0),
    bytes.length,
  );
  const content = Buffer.alloc(Math.max(length, ...changes.map(({ truncate = 0 }) => truncate)));
  bytes.copy(content);
  let end = bytes.length;
  for (const { write, truncate } of changes) {
    if (write) {
      write.data.copy(content, write.offset);
      end = Math.max(end, write.offset + write.data.length);
    } else if (truncate !== undefined) {
      content.fill(0, truncate);
      end = truncate;
    }
  }
  return content.subarray(0, end);
}
