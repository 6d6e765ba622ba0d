import { OperatorError } from '../../base/errors.ts';
import { type AuditRecord, auditDigest, parseAuditRecord } from '../../manifest/auditRecord.ts';
import { describeActor, describeObject, fitsFilter } from '../../manifest/auditWords.ts';
import { parseReceipt } from '../../manifest/received.ts';
import { type KeptRecord, storedTrail } from '../../prove/trail/trailCheck.ts';
import { argument, command, group, option } from '../command.ts';
import { CONFIG, parseCountArgument, parseDateArgument } from '../options.ts';
import { isJson, print, printJson, printResult, printTable } from '../terminal.ts';
import { withStore } from '../withStore.ts';
import { exportTrailCommand, verifyTrailCommand } from './auditExport.ts';

const listCommand = command('list', {
  summary: 'list the records, the newest last',
  description:
    'Lists the records, the newest last. A later record concludes an act whose outcome is "begun". If there is no such record, the ' +
    'act was interrupted, and may be complete or not. Long values are cut: `pdfseal audit show` has them whole.',
  options: [
    CONFIG,
    option('--since <date>', 'only records of this date or later', parseDateArgument),
    option('--until <date>', 'only records before this date', parseDateArgument),
    option('--act <name>', 'only this act, such as key.issue, or all acts of a group, such as key'),
    option('--who <text>', 'only records whose actor contains this text'),
  ],
  examples: [
    'pdfseal audit list --config production.toml --since 2026-11-01 --act key',
    "pdfseal audit list --config production.toml --json | jq -r 'select(.sealed | not) | .number'",
  ],
  async run({ config, ...filters }) {
    await withStore(config, 'read', async (store) => {
      const rows: string[][] = [];
      for await (const kept of storedTrail(store)) {
        const record = parseAuditRecord(kept.text);
        if (record !== undefined && !fitsFilter(record, filters)) continue;
        if (isJson()) printJson(present(kept, record));
        else rows.push(rowOf(kept, record));
      }
      if (!isJson()) printTable(['NUMBER', 'TIME', 'ACT', 'OUTCOME', 'WHO', 'SEALED', 'WHAT'], rows);
    });
  },
});

const showCommand = command('show', {
  description: 'Shows one record, and whether it is sealed.',
  arguments: [argument('<number>', 'number of the record', parseCountArgument)],
  options: [CONFIG],
  examples: ['pdfseal audit show 17 --config production.toml'],
  async run({ config }, number) {
    await withStore(config, 'read', async (store) => {
      const entry = await store.trail.entry(number);
      if (entry === undefined) throw new OperatorError(`there is no audit record ${number}`);
      for await (const kept of storedTrail(store, { after: number - 1 })) {
        const shown = { ...present(kept, parseAuditRecord(kept.text)), job_id: entry.jobId };
        const lines = () => JSON.stringify(shown, undefined, 2).split('\n');
        return printResult(shown, () => lines().forEach(print));
      }
    });
  },
});

export const auditCommand = group(
  'audit',
  'Shows and verifies the audit trail: who administered what, when. Each record contains the digest of the previous one and is ' +
    'sealed into the log like a document. So no record can be altered or removed unnoticed, and anyone can verify a record offline.',
  [listCommand, showCommand, exportTrailCommand, verifyTrailCommand],
);

function rowOf(kept: KeptRecord, record: AuditRecord | undefined): string[] {
  const number = String(kept.number);
  if (record === undefined) return [number, '', 'cannot be read: see pdfseal audit verify'];
  const { at, act, outcome, actor, object, concludes } = record;
  const what = concludes === undefined ? object : { ...object, concludes };
  const leafIndex = leafIndexOf(kept);
  const sealed = leafIndex === undefined ? 'not yet' : `leaf ${leafIndex}`;
  return [number, at, act, outcome, describeActor(actor), sealed, describeObject(what)];
}

function leafIndexOf({ receipt }: KeptRecord): number | undefined {
  const parsed = parseReceipt(receipt);
  return parsed.kind === 'receipt' ? parsed.receipt.evidence.leaf_index : undefined;
}

function present(kept: KeptRecord, record: AuditRecord | undefined) {
  const leafIndex = leafIndexOf(kept);
  return {
    ...(record ?? { number: kept.number, text: kept.text }),
    sha256: auditDigest(kept.text),
    sealed: leafIndex !== undefined,
    leaf_index: leafIndex,
    problem: kept.problem,
  };
}
