import * as z from 'zod';
import { toRfc3339 } from '../../base/clock.ts';
import type { ScannerHealth } from '../../scan/scanner.ts';
import { by, epochSeconds, plain, showAs, WIRE } from './section.ts';

const { count, time } = WIRE;

export const scannerSchema = z
  .object({
    trouble: z.string().optional(),
    detail: z.string(),
    connections_in_use: count,
    connections_idle: count,
    connections_max: count,
    documents_waiting: count.describe('For a connection.'),
    engine: z.string().optional(),
    signatures: z.string().optional(),
    signatures_built_at: time.optional(),
  })
  .describe('Absent where documents are not scanned.');
type ScannerSection = z.infer<typeof scannerSchema>;

export function presentScanner(health: ScannerHealth): ScannerSection {
  const { trouble, detail, version, connections, connectionsInUse } = health;
  const { engine, signatures, signaturesBuiltAt } = version ?? {};
  return {
    trouble,
    detail,
    connections_in_use: connectionsInUse,
    connections_idle: connections - connectionsInUse,
    connections_max: health.connectionsMax,
    documents_waiting: health.documentsWaiting,
    engine,
    signatures,
    ...(signaturesBuiltAt !== undefined && { signatures_built_at: toRfc3339(signaturesBuiltAt) }),
  };
}

showAs(scannerSchema, [
  plain(
    'pdfseal_scanner_up',
    '1 while documents are scanned; absent where none are',
    ({ trouble }) => trouble === undefined,
  ),
  by(
    'state',
    'pdfseal_scanner_connections',
    'Connections to the virus scanner, by state; a document that is scanned has one in use',
    (scanner) => [
      ['in_use', scanner.connections_in_use],
      ['idle', scanner.connections_idle],
    ],
  ),
  plain(
    'pdfseal_scanner_connections_max',
    'Connections there may be (scan.connections_max)',
    'connections_max',
  ),
  plain(
    'pdfseal_scanner_documents_waiting',
    'Documents that wait for a connection to the virus scanner',
    'documents_waiting',
  ),
  plain(
    'pdfseal_scanner_signatures_timestamp_seconds',
    'When the signatures of the virus scanner were built; absent where it does not say',
    (scanner) => epochSeconds(scanner.signatures_built_at),
  ),
]);
