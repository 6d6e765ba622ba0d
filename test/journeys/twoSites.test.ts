/** Two sites, each with a log and a witness of the other's: what one site tries with its own log, the other finds out. */
import { cpSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { openStore } from '../../src/store/lmdb/open.ts';
import { type Answer, Client, type Envelope } from '../support/client.ts';
import { openSandbox } from '../support/sandbox.ts';
import { SiteWitness } from '../support/siteWitness.ts';
import { until } from '../support/until.ts';

const sizeOf = ({ text }: Answer) => Number(text.split('\n')[1]);

async function openSite(t: Test, name: string) {
  const tables = { witness: 'policy = "policy"\ninterval = "200ms"', health: 'canary_interval = "off"' };
  const sandbox = await openSandbox({ tables });
  t.teardown(() => sandbox.close());
  const apiKey = await sandbox.issueKey();
  const [{ epochs }] = JSON.parse(readFileSync(sandbox.trustFile, 'utf8')).logs;
  const witness = await SiteWitness.make(sandbox.dir, name, 'src');
  t.teardown(async () => void (await witness.kill()));
  return { name, sandbox, apiKey, witness, vkey: String(epochs[0].keys[0].vkey) };
}
type Site = Awaited<ReturnType<typeof openSite>>;

/** The log of a site is witnessed by the other site. */
async function introduce(site: Site, other: Site): Promise<void> {
  const { sandbox, vkey } = site;
  other.witness.name(vkey);
  await other.witness.start();
  const { vkey: witness, url } = other.witness;
  writeFileSync(join(sandbox.dir, 'policy'), `log ${vkey}\nwitness other ${witness} ${url}\nquorum other\n`);
}

t.test('two sites witness each other', async (t) => {
  const [north, south] = [await openSite(t, 'north'), await openSite(t, 'south')];
  await introduce(north, south);
  await introduce(south, north);
  const clients = new Map<Site, Client>();
  let daemon = await north.sandbox.start();
  await south.sandbox.start();
  for (const site of [north, south]) clients.set(site, await Client.connect(site.sandbox.url, site.apiKey));
  const clientOf = (site: Site) => clients.get(site) as Client;
  const seal = (site: Site, text: string) =>
    clientOf(site).seal(Buffer.from(`%PDF-1.7\n${text}\n%%EOF\n`), { mode: 'blocking' });
  const untilWitnessed = (site: Site) =>
    until(`${site.name} is witnessed`, async () => {
      const [newest, witnessed] = [
        await clientOf(site).get('/v1/log/checkpoint'),
        await clientOf(site).get('/v1/log/checkpoint/witnessed'),
      ];
      return newest.status === 200 && newest.text === witnessed.text;
    });
  const auditor = t.testdir();
  const monitor = (...more: string[]) =>
    north.sandbox.pdfseal(
      [
        'monitor',
        '--url',
        north.sandbox.url,
        '--trust',
        north.sandbox.trustFile,
        '--state',
        'state',
        ...more,
      ],
      { cwd: auditor, env: { PDFSEAL_API_KEY: north.apiKey } },
    );

  await t.test('each cosigns the log of the other, even after its witness was killed', async (t) => {
    for (const site of [north, south]) {
      t.equal((await seal(site, 'one')).status, 202);
      await untilWitnessed(site);
    }
    await south.witness.kill();
    t.equal((await seal(north, 'two')).status, 202, 'sealing goes on without the witness');
    await south.witness.start();
    await untilWitnessed(north);
    t.match(await monitor('--first'), { status: 0 });
  });

  await t.test(
    'a site that goes back to an older copy and seals on is refused, and an auditor sees it',
    async (t) => {
      const state = join(north.sandbox.dir, 'state');
      await daemon.stop();
      cpSync(join(state, 'store'), join(north.sandbox.dir, 'older'), { recursive: true });
      daemon = await north.sandbox.start();
      for (const text of ['three', 'four']) await seal(north, text);
      await untilWitnessed(north);
      const held = sizeOf(await clientOf(north).get('/v1/log/checkpoint'));
      t.match(await monitor(), { status: 0 });
      await daemon.stop();
      await south.witness.kill();
      renameSync(join(state, 'store'), join(north.sandbox.dir, 'true'));
      renameSync(join(north.sandbox.dir, 'older'), join(state, 'store'));
      const older = await openStore({ path: join(state, 'store'), readOnly: true });
      const size = (await older.log.head())?.treeSize ?? 0;
      await older.close();
      const rollback = [
        'last-checkpoint',
        '--accept-rollback',
        `${size}`,
        '--config',
        north.sandbox.configFile,
      ];
      t.match(await north.sandbox.pdfseal(rollback), { status: 0 });
      daemon = await north.sandbox.start();
      while (sizeOf(await clientOf(north).get('/v1/log/checkpoint')) <= held)
        await seal(north, 'another history');
      await south.witness.start();
      await until('the alarm is raised', () => daemon.log.some(({ event }) => event === 'fork_alarm'));
      await until('the witness says why', () =>
        /"event":"(?:contradiction|not_consistent)","origin":"seal\.example\.com\/sandbox\/2026"/.test(
          south.witness.output(),
        ),
      );
      const refused = await seal(north, 'too late');
      t.equal(`${refused.status} ${refused.json<Envelope>().error.code}`, '503 fork_alarm');
      t.match(await monitor(), { status: 1, stdout: /are not those that were signed[^\n]*\nbad\n$/ });
      t.equal((await seal(south, 'two')).status, 202, 'the other site is not concerned');
      await untilWitnessed(south);
    },
  );
});
