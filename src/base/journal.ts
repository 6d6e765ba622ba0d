/** Writes to the systemd journal in its own protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL), so that lines have priorities and fields. */
import { fstatSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { escapeControls } from './controls.ts';
import { fromEnvironment } from './env.ts';
import { EVENTS, type EventName } from './events.ts';
import type { LogOutput } from './logWriter.ts';
import { codeOf } from './systemReason.ts';

/** Datagrams over Unix sockets, which Node lacks. Neither function waits. */
export interface DatagramAddon {
  /** Sends one datagram; throws Error with the system's message. */
  notify(socket: string, message: string): void;
  /** Sends datagrams in order and returns how many were sent; throws Error with the system's code if none was. */
  send(socket: string, messages: Buffer[]): number;
  /**
   * The process at the other end of a Unix socket, as of when it connected or began to listen; undefined for other sockets (SO_PEERCRED,
   * unix(7)).
   */
  peer(fd: number): { pid?: number; uid: number } | undefined;
  /** Prevents other processes of the same user from reading this process's memory (PR_SET_DUMPABLE, prctl(2)). */
  conceal(): void;
}

/** The same path in a checkout and in an installation. */
export const DATAGRAM_ADDON = fileURLToPath(
  new URL('../../native/build/Release/pdfseal_notify.node', import.meta.url),
);

/** The add-on, typed with the functions that the caller names. Throws if it was not built. */
export function openDatagramAddon<Functions = DatagramAddon>(): Functions {
  return createRequire(import.meta.url)(DATAGRAM_ADDON) as Functions;
}

export const JOURNAL_SOCKET = '/run/systemd/journal/socket';
const IDENTIFIER = 'pdfseald';

/** As in syslog(3); 0 and 1 are reserved for the whole machine. */
const PRIORITIES: Record<string, string> = {
  fatal: '2',
  error: '3',
  warn: '4',
  info: '6',
  debug: '7',
  trace: '7',
};
const PRIORITY_UNKNOWN = '6';

/** Values that are also journal fields, for searching. The message contains all values. */
const FIELDS = [
  'event',
  'request_id',
  'trace_id',
  'job_id',
  'client_id',
  'key_id',
  'error_code',
  'route',
  'status',
  'partition',
  'authority',
  'endpoint_id',
  'subject',
  'detail',
  'err',
  'reason',
].map((name) => [name, `PDFSEAL_${name.toUpperCase()}`] as const);

/** Whether this descriptor leads to the journal (systemd.exec(5), JOURNAL_STREAM). */
export function isJournal(fd: number): boolean {
  const stream = fromEnvironment('JOURNAL_STREAM');
  if (stream === undefined) return false;
  const { dev, ino } = fstatSync(fd, { bigint: true });
  return stream === `${dev}:${ino}`;
}

/** Error codes of a journal that is full at the moment, or is being restarted. */
const AWAY = ['EAGAIN', 'ECONNREFUSED', 'ENOENT'];

/** Turns each line into a journal entry. Lines wait while the journal is not available, for example during its restart. */
export function toJournal(addon: Pick<DatagramAddon, 'send'>, socket = JOURNAL_SOCKET): LogOutput {
  return (bytes) => {
    const lines = splitLines(bytes);
    const entries = lines.map((line) => encodeEntry(line.toString()));
    try {
      const sent = addon.send(socket, entries);
      return lines.slice(0, sent).reduce((sum, line) => sum + line.length, 0);
    } catch (error) {
      throw AWAY.includes(codeOf(error))
        ? Object.assign(new Error('the journal is busy', { cause: error }), { code: 'EAGAIN' })
        : error;
    }
  };
}

const NEWLINE = 0x0a;

function splitLines(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, start);
    const next = end < 0 ? bytes.length : end + 1;
    lines.push(bytes.subarray(start, next));
    start = next;
  }
  return lines;
}

type Fields = Record<string, unknown>;

/** Encodes one JSON line of the log as a journal entry. */
export function encodeEntry(line: string): Buffer {
  const { level, time: _, msg = '', ...fields } = JSON.parse(line) as Fields;
  const id = EVENTS[fields.event as EventName];
  const entry: [name: string, value: string][] = [
    [
      'MESSAGE',
      [String(msg), ...Object.entries(fields).flatMap(describeField).map(escapeControls)].join(' '),
    ],
    ['PRIORITY', PRIORITIES[String(level)] ?? PRIORITY_UNKNOWN],
    ['SYSLOG_IDENTIFIER', IDENTIFIER],
  ];
  if (id !== undefined) entry.push(['MESSAGE_ID', id]);
  for (const [name, field] of FIELDS) {
    if (fields[name] !== undefined) entry.push([field, textOf(fields[name])]);
  }
  return encodeFields(entry);
}

/** Printable ASCII except quotes and `=`: no control characters, and nothing that looks like another field. */
const WORD = /^[!#-<>-~]+$/;

/** `name=value`, with the value in JSON unless it is a plain word. For an error, only its message and code: the rest is in a field. */
function describeField([name, value]: [string, unknown]): string[] {
  if (name === 'event') return [];
  if (name === 'err') {
    const { message, code } = value as Fields;
    return [`err=${JSON.stringify(message)}`, ...(code === undefined ? [] : [`err_code=${textOf(code)}`])];
  }
  const isWord = typeof value !== 'string' || WORD.test(value);
  return [`${name}=${isWord ? textOf(value) : JSON.stringify(value)}`];
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Some values have several lines. These are preceded by their length: 64 bits, little-endian. */
function encodeFields(entry: [name: string, value: string][]): Buffer {
  if (!entry.some(([, value]) => value.includes('\n'))) {
    return Buffer.from(entry.map(([name, value]) => `${name}=${value}\n`).join(''));
  }
  return Buffer.concat(entry.flatMap(([name, value]) => encodeLines(name, Buffer.from(value))));
}

function encodeLines(name: string, value: Buffer): Buffer[] {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(value.length));
  return [Buffer.from(`${name}\n`), length, value, Buffer.from('\n')];
}
