import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import { until } from '../support/until.ts';

/**
 * Receives datagrams at a path as journald does, files in memory too, once it is told to by a line; each is written as Base64. Files
 * have to be sealed, or journald would refuse them.
 */
const RECEIVER = `
import array, base64, fcntl, os, socket, sys
SEALS = 0x1 | 0x2 | 0x4 | 0x8
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind(sys.argv[1])
print("bound", flush=True)
sys.stdin.readline()
while True:
    data, ancillary, _, _ = receiver.recvmsg(1 << 20, socket.CMSG_SPACE(4))
    for _, _, rights in ancillary:
        file = array.array("i", rights)[0]
        assert fcntl.fcntl(file, 1034) & SEALS == SEALS
        data = os.pread(file, os.fstat(file).st_size, 0)
        os.close(file)
    print(base64.b64encode(data).decode(), flush=True)
`;

export type Entry = Record<string, string>;

/** A receiver at the path; `entries` grows once `read` was called. */
export async function listenAsJournal(t: Test, path: string) {
  const child = spawn('python3', ['-c', RECEIVER, path], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.teardown(() => child.kill());
  const entries: Entry[] = [];
  let isBound = false;
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line === 'bound') isBound = true;
    else entries.push(parseEntry(Buffer.from(line, 'base64')));
  });
  await until('the receiver is there', () => isBound);
  return { entries, read: () => child.stdin.write('read\n') };
}

/** One entry of systemd's native protocol: `NAME=value` lines, or a name, the length of the value, and the value. */
function parseEntry(bytes: Buffer): Entry {
  const entry: Entry = {};
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf('\n', at);
    const line = bytes.toString('utf8', at, end);
    const equals = line.indexOf('=');
    let [name, value] = [line.slice(0, equals), line.slice(equals + 1)];
    at = end + 1;
    if (equals < 0) {
      const length = Number(bytes.readBigUInt64LE(at));
      [name, value] = [line, bytes.toString('utf8', at + 8, at + 8 + length)];
      at += 8 + length + 1;
    }
    if (!/^[A-Z][A-Z0-9_]{0,63}$/.test(name) || name in entry) throw new Error(`not a field: ${name}`);
    entry[name] = value;
  }
  return entry;
}
