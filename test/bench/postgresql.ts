/** The two engines of the store side by side: `node test/bench/postgresql.ts [--rounds N] [--round-ms N] [--connections N,…] [--dir FOLDER]` */
import { parseArgs } from 'node:util';
import { startPostgres } from '../support/postgres.ts';
import { number, ratio, table } from './format.ts';
import { benchHttp, openLoad } from './http.ts';
import { startDaemon } from './servers.ts';
import { Workspace } from './workspace.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    'round-ms': { type: 'string', default: '2000' },
    connections: { type: 'string', default: '1,64' },
    /** Of the store in state_dir. That of the database is in the system's temporary folder (TMPDIR). */
    dir: { type: 'string', default: '/var/tmp' },
  },
});
const DOCUMENT_BYTES = 10_000;
const REGIONS = ['north', 'south'];

const workspace = new Workspace(values.dir);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => workspace.close().finally(() => process.exit(1)));
try {
  const lmdb = await startDaemon(workspace, { regions: REGIONS });
  const postgres = await startPostgres({ teardown: (undo) => workspace.onClose(undo) });
  const database = await postgres.createDatabase();
  const store = `engine = "postgresql"\nurl = "${postgres.url(database)}"`;
  const other = await startDaemon(workspace, { regions: REGIONS, init: false, tables: { store } });
  const plan = {
    documentBytes: [DOCUMENT_BYTES],
    connections: values.connections.split(',').map(Number),
    rounds: Number(values.rounds),
    roundMs: Number(values['round-ms']),
  };
  const measure = async () => {
    const sql = `SELECT pg_database_size('${database}')::int AS bytes, tree_size::int AS leaves FROM pdfseal.log_head`;
    const [size] = await postgres.query(sql, database);
    return [Number(size?.bytes), Number(size?.leaves)] as const;
  };
  const [before] = await measure();
  const rows: string[][] = [];
  const servers = [lmdb, { ...other, name: 'postgresql' as const }];
  for await (const cell of benchHttp(plan, servers, openLoad(workspace))) {
    const { pdfseald: embedded, postgresql: far } = cell.servers;
    for (const [engine, figures] of [
      ['lmdb', embedded],
      ['postgresql', far],
    ] as const)
      rows.push([
        `${engine}, ${cell.connections}`,
        number(figures.sealsPerSecond),
        ratio(figures.sealsPerSecond, embedded.sealsPerSecond),
        `${number(figures.p50Ms)} ms`,
        ratio(figures.p50Ms, embedded.p50Ms),
        `${number(figures.p99Ms)} ms`,
        `${number(figures.cpuMsPerSeal)} ms`,
      ]);
  }
  const header = ['engine, connections', 'seals/s', 'to lmdb', 'p50', 'to lmdb', 'p99', 'CPU of the daemon'];
  console.log(table(header, rows));
  const [bytes, leaves] = await measure();
  console.log(`${number((bytes - before) / leaves)} bytes of database for each of ${leaves} leaves`);
} finally {
  await workspace.close();
}
