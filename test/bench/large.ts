import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { number, table } from './format.ts';
import { type Memory, watchMemory } from './memory.ts';
import { startDaemon } from './servers.ts';
import { medianOf } from './stats.ts';
import { filler, makeFrame, type UploadForm } from './upload.ts';
import type { Workspace } from './workspace.ts';

export interface LargePlan {
  documentBytes: number;
  rounds: number;
}

export interface LargeReport {
  documentBytes: number;
  rounds: number;
  /** Medians. */
  forms: Record<Form, LargeFigures>;
}

interface LargeFigures extends Memory {
  /** From the first byte sent to the first byte of the answer. */
  seconds: number;
  /** From the moment the kernel has taken the last byte of the request to the first byte of the answer, a completed seal. */
  lastByteToAnswerMs: number;
}

const FORMS = ['multipart', 'raw'] as const satisfies UploadForm[];
type Form = (typeof FORMS)[number];

/** Large documents one at a time, on a connection each: what is left to do when the last byte has come. */
export async function benchLarge(
  { documentBytes, rounds }: LargePlan,
  workspace: Workspace,
  progress: (line: string) => void,
): Promise<LargeReport> {
  const { pid, port, apiKey } = await startDaemon(workspace, {
    regions: ['north', 'south'],
    tables: { limits: `document_bytes_max = "${documentBytes / 2 ** 20}MiB"` },
  });
  const samples: Record<Form, LargeFigures[]> = { multipart: [], raw: [] };
  for (let round = 0; round < rounds; round++) {
    for (const form of FORMS) {
      progress(`large: ${form}, round ${round + 1} of ${rounds}`);
      const memory = watchMemory(pid);
      const times = await timedSeal(port, makeFrame(documentBytes, apiKey, form));
      samples[form].push({ ...times, ...memory() });
    }
  }
  return {
    documentBytes,
    rounds,
    forms: { multipart: medianOf(samples.multipart), raw: medianOf(samples.raw) },
  };
}

const PIECE = filler(1024 * 1024);

async function timedSeal(port: number, { head, fillerBytes, tail }: ReturnType<typeof makeFrame>) {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true });
  await once(socket, 'connect');
  try {
    const answered = once(socket, 'data').then(([bytes]) => ({ bytes, atMs: performance.now() }));
    const startMs = performance.now();
    await write(socket, head());
    for (let left = fillerBytes; left > 0; left -= PIECE.length) await write(socket, PIECE.subarray(0, left));
    await write(socket, tail);
    const lastByteMs = performance.now();
    const { bytes, atMs } = await answered;
    const answer = String(bytes);
    if (!answer.startsWith('HTTP/1.1 202 ') || !answer.includes('"phase":"completed"'))
      throw new Error(answer);
    return { seconds: (atMs - startMs) / 1000, lastByteToAnswerMs: atMs - lastByteMs };
  } finally {
    socket.destroy();
  }
}

/** Until the kernel has taken the bytes. */
async function write(socket: Socket, bytes: Uint8Array): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    socket.write(bytes, (error) => (error ? reject(error) : resolve()));
  });
}

export function renderLarge({ documentBytes, rounds, forms }: LargeReport): string {
  const rows = FORMS.map((form) => {
    const own = forms[form];
    const memory = [own.peakRssBytes, own.peakAnonBytes, own.peakFileBytes];
    return [
      form,
      ...[documentBytes / own.seconds / 1e6, own.lastByteToAnswerMs].map(number),
      ...memory.map((bytes) => number(bytes / 1e6)),
    ];
  });
  return [
    `Blocking seals of ${documentBytes / 2 ** 20} MiB, one at a time: medians of ${rounds}`,
    table(['sent as', 'MB/s', 'last byte to answer ms', 'RSS max MB', 'its own', 'files'], rows),
  ].join('\n');
}
