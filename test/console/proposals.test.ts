/** Acts that take two people: a real store, its real epochs and a real configuration, and people who are one too few. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { isSameName } from '../../src/console/proposals.ts';
import { parseTrust } from '../../src/manifest/trustFile.ts';
import { HOSTILE } from '../support/receipts.ts';
import { until } from '../support/until.ts';
import { openTlsConsole } from './overTls.ts';
import { LATER, openConsole, openLog, PLAN, people } from './proposingPeople.ts';
import { openTestConsole } from './testConsole.ts';

const AT = `${LATER}:00.000Z`;

t.test('one administrator proposes, another approves, and both are on record', async (t) => {
  const { send, page, waiting, answer, acts, quorums, sandbox, pdfseal } = await openConsole(t);
  t.notMatch(await page('/'), /A proposal awaits approval/);
  t.match(await send('Anna', 'propose', PLAN), { status: 303, headers: { location: '/care/epochs' } });
  t.strictSame(await quorums(), [2], 'nothing has happened');
  t.notMatch(await page('/care/epochs'), /The last proposal/);
  const shown = await page('/care/epochs');
  t.match(
    shown,
    /Epoch 2 begins at .*The quorum changes from <bdi class="name">2<\/bdi> to <bdi class="name">1<.*lowers the quorum.*All keys stay/s,
  );
  t.match(shown, /in 1d 0h|in 2[34]h|in 1d|in 24h/);
  t.match(await page('/'), /A proposal awaits approval.*Anna proposes.*href="\/care\/epochs"/s);
  t.match(await page('/care'), /href="\/care\/epochs">A proposal awaits a second administrator/);
  const id = await waiting();
  t.match(await send('Bert', 'approve', { proposal: id }), { status: 400, text: /I have checked/ });
  t.match(await answer('Bert', 'approve'), { status: 303 });
  t.strictSame(await quorums(), [2, 1]);
  t.match(parseTrust(readFileSync(sandbox.trustFile, 'utf8')), { logs: [{ epochs: { length: 2 } }] });
  t.match(await send('Bert', 'approve', { proposal: id, sure: 'yes' }), {
    status: 409,
    text: /no longer awaits/,
  });
  t.notMatch(await page('/'), /A proposal awaits approval/, 'Now says so at once');
  const result = /The last proposal.*Anna.*Bert.*Epoch 2 begins.*The change is made/s;
  t.match(await page('/care/epochs', 'Anna'), result, 'she learns what came of it');
  const object = { proposal: id, proposed_by: 'Anna', act: 'epoch.plan', from: AT, quorum: 1 };
  const bert = { via: 'console', person: 'Bert', role: 'administrator' };
  t.match(
    await acts(),
    [
      {},
      { act: 'console.propose', actor: { via: 'console', person: 'Anna' }, object, outcome: 'done' },
      { act: 'console.approve', actor: bert, object, outcome: 'begun' },
      { act: 'epoch.plan', actor: { ...bert, proposed_by: 'Anna' }, object: { from: AT, quorum: 1 } },
      { act: 'console.approve', actor: bert, object, outcome: 'done' },
    ].slice(1),
  );
  t.match(await pdfseal('epochs', 'list'), {
    status: 0,
    stdout: /2 +planned/,
    stderr: '',
  });
  const listed = await pdfseal('audit', 'list', '--act', 'epoch');
  t.match(listed.stdout, /console Bert \(administrator\), proposed by Anna/);

  t.match(await send('Bert', 'propose', PLAN), { status: 409, text: /already planned/ });
  t.match(await send('Bert', 'propose', { act: 'cancel' }), { status: 303 });
  t.match(await page('/care/epochs', 'Anna'), /Epoch 2, which is planned for [^<]* is cancelled/);
  t.match(await answer('Anna', 'refuse'), { status: 303 });
  t.strictSame(await quorums(), [2, 1], 'refused');
  t.match((await acts()).at(-1), {
    act: 'console.refuse',
    actor: { person: 'Anna' },
    object: { proposed_by: 'Bert' },
  });
  t.match(await page('/care/epochs'), /The last proposal.*is cancelled.*The proposal was refused/s);
  await send('Bert', 'propose', { act: 'cancel' });
  t.match(await answer('Anna', 'approve'), { status: 303 });
  t.strictSame(await quorums(), [2]);
});

t.test('only a second administrator can approve a proposal', async (t) => {
  const { send, page, waiting, quorums, test } = await openConsole(t);
  const roles = ['auditor', 'operator'] as const;
  for (const role of roles)
    t.match(await send('Bert', 'propose', PLAN, role), { status: 403, text: /administrator/ });
  t.match(await send('Anna', 'propose', PLAN), { status: 303 });
  const proposal = await waiting();
  const yes = { proposal, sure: 'yes' };
  for (const name of ['Anna', 'ANNA', 'anna', '\uFF21nna'])
    t.match(await send(name, 'approve', yes), { status: 403, text: /your own proposal/ }, name);
  t.match(await page('/care/epochs', 'Anna'), /You proposed this.*Withdraw/s);
  t.notMatch(await page('/care/epochs', 'Anna'), />Approve</);
  for (const role of roles)
    for (const step of ['approve', 'refuse'])
      t.match(
        await send('Bert', step, yes, role),
        { status: 403, text: /requires the role administrator/ },
        `${role} ${step}`,
      );
  t.match(await page('/care/epochs', 'Bert', 'auditor'), /Only an administrator can/);
  const { cookie } = test.signedIn('administrator', 'Bert');
  t.match(
    await test.post('/care/epochs/approve', yes, { cookie }),
    { status: 403, text: /out of date/ },
    'no token',
  );
  t.match(await send('Bert', 'approve', { ...yes, proposal: 'other' }), { status: 409 });
  t.match(await send('Bert', 'propose', PLAN), {
    status: 409,
    text: /Another proposal already awaits approval/,
  });
  t.strictSame(await quorums(), [2]);
  t.match(await send('Anna', 'refuse', { proposal }), { status: 303 }, 'she can withdraw it');
  t.equal(await waiting(), 'none');
});

t.test('names are compared without case, even if a capital is two letters', (t) => {
  t.ok(isSameName('Groß', 'GROSS'));
  t.notOk(isSameName('Gros', 'GROSS'));
  t.end();
});

t.test('a certificate and a link for the same name count as one person', async (t) => {
  const { store, epochActs, quorums } = await openLog(t);
  const console = await openTlsConsole(t, { store, epochActs });
  const anna = console.client('anna');
  const { cookie, token } = await console.signIn(anna);
  const proposed = await console.post('/care/epochs/propose', { ...PLAN, token }, { as: anna, cookie });
  t.match(proposed, { status: 303 });
  const { answer } = people(console.test);
  t.match(await answer('Anna', 'approve'), { status: 403, text: /your own proposal/ });
  t.strictSame(await quorums(), [2]);
  t.match(await answer('Berta', 'approve'), { status: 303 }, 'another person with a link');
  t.strictSame(await quorums(), [2, 1]);
});

t.test('a proposal that would now do something else is not carried out', async (t) => {
  const { send, answer, page, acts, quorums, configure, pdfseal } = await openConsole(t);
  const stale = { status: 409, text: /out of date.*Nothing was changed/s };
  await send('Anna', 'propose', PLAN);
  configure('quorum = 1', 'quorum = 3');
  t.match(await answer('Bert', 'approve'), stale, 'the configuration says another quorum');
  t.match(await page('/care/epochs', 'Anna'), /The last proposal.*Bert.*out of date/s, 'both are told');
  t.strictSame(await quorums(), [2]);
  t.match((await acts()).slice(-2), [
    { act: 'console.approve', outcome: 'begun' },
    { act: 'console.approve', outcome: 'failed' },
  ]);
  await send('Anna', 'propose', PLAN);
  await pdfseal('epochs', 'plan', '--new-keys', 'none', '--from', `${LATER}:30Z`);
  t.match(
    await answer('Bert', 'approve'),
    { status: 409, text: /already planned.*Nothing was changed/s },
    'another plan',
  );
  await send('Anna', 'propose', { act: 'cancel' });
  await pdfseal('epochs', 'cancel');
  t.match(await answer('Bert', 'approve'), { status: 409, text: /no epoch is planned/ }, 'no plan any more');
  await send('Anna', 'propose', PLAN);
  await pdfseal('epochs', 'plan', '--new-keys', 'none', '--from', `${LATER}:30Z`);
  await pdfseal('epochs', 'cancel');
  t.match(await answer('Bert', 'approve'), stale, 'an older list of epochs, though it looks the same');
  t.strictSame(await quorums(), [2]);
  configure('quorum = 3', 'quorum = ');
  t.match(await send('Anna', 'propose', PLAN), { status: 409, text: /not TOML/ });
});

t.test('a proposal with a wrong time or without effect is refused', async (t) => {
  const { send, acts, configure } = await openConsole(t);
  for (const from of ['', 'tomorrow', '2027-13-01T00:00', `${LATER}Z`, HOSTILE.replace('\0', '')])
    t.match(
      await send('Anna', 'propose', { act: 'plan', from }),
      { status: 400, text: /day and time when the epoch begins/ },
      from,
    );
  t.match(await send('Anna', 'propose', { act: 'plan', from: '2020-01-01T00:00' }), {
    status: 409,
    text: /in the past/,
  });
  t.match(await send('Anna', 'propose', { act: 'cancel' }), { status: 409, text: /no epoch is planned/ });
  configure('quorum = 1', 'quorum = 2');
  t.match(await send('Anna', 'propose', PLAN), { status: 409, text: /nothing would change/ });
  t.strictSame(
    (await acts()).filter((one) => one?.act !== 'log.create'),
    [],
  );
});

t.test('a proposal can name only a new key that already exists', async (t) => {
  const { send, page, answer, store, pdfseal } = await openConsole(t);
  const planned = { ...PLAN, new: 'eu/sandbox-2026' };
  const missing = /there is no key eu\/sandbox-2026-e2: first make it with pdfseal hsm init-key/;
  t.match(await send('Anna', 'propose', planned), { status: 409, text: missing });
  const other = { ...planned, new: 'eu/other' };
  t.match(await send('Anna', 'propose', other), { status: 409, text: /has no such partition/ });
  for (const suffix of ['a b', 'x'.repeat(33), '<b>'])
    t.match(await send('Anna', 'propose', { ...planned, suffix }), {
      status: 400,
      text: /suffix of a label/,
    });
  const names = ['--region', 'eu', '--key-label', 'sandbox-2026', '--new-label', 'sandbox-2026-e2'];
  const made = await pdfseal('hsm', 'init-key', ...names);
  t.equal(made.status, 0, made.stderr);
  t.match(await send('Anna', 'propose', planned), { status: 303 });
  t.match(
    (await page('/care/epochs')).replaceAll('<wbr>', ''),
    /sandbox-2026<\/bdi> no longer signs.*sandbox-2026-e2<\/bdi> signs from then on.*All other keys stay/s,
  );
  t.match(await answer('Bert', 'approve'), { status: 303 });
  const [, epoch] = (await store.epochs.newest()).list;
  t.strictSame(
    epoch?.keys.map(({ region, keyLabel, ...key }) => [region, keyLabel, ...Object.keys(key).sort()]),
    [
      ['eu', 'sandbox-2026-e2', 'algorithm', 'partition', 'spki'],
      ['us', 'sandbox-2026', 'algorithm', 'partition', 'spki'],
      ['ap', 'sandbox-2026', 'algorithm', 'partition', 'spki'],
    ],
  );
  const listed = await pdfseal('epochs', 'list');
  t.match(listed, { status: 0, stdout: /eu\/sandbox-2026-e2/, stderr: '' });
});

t.test('a proposal approved twice at once takes effect once, and an old one expires', async (t) => {
  const { send, waiting, quorums } = await openConsole(t);
  await send('Anna', 'propose', PLAN);
  const yes = { proposal: await waiting(), sure: 'yes' };
  const answers = await Promise.all(['Bert', 'Cleo', 'Dora'].map((name) => send(name, 'approve', yes)));
  t.strictSame(answers.map(({ status }) => status).sort(), [303, 409, 409]);
  t.strictSame(await quorums(), [2, 1]);
  const brief = await openConsole(t, { proposalMsMax: 1 });
  t.match(await brief.send('Anna', 'propose', PLAN), { status: 303 });
  await until('it has ended', async () => (await brief.acts()).at(-1)?.act === 'console.expire');
  t.match((await brief.acts()).at(-1), { actor: { via: 'daemon' }, object: { proposed_by: 'Anna' } });
  t.equal(await brief.waiting(), 'none');
  t.match(await brief.page('/care/epochs'), /The last proposal.*Nobody answered it within 24 hours/s);
  t.strictSame(await brief.quorums(), [2]);
});

t.test('a slow approval has no effect once its session has ended', async (t) => {
  const log = await openLog(t);
  const looked = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  let asked = 0;
  const plan: typeof log.epochActs.plan = async (choice) => {
    asked += 1;
    if (asked === 2) {
      looked.resolve();
      await held.promise;
    }
    return log.epochActs.plan(choice);
  };
  const test = await openTestConsole(t, { store: log.store, epochActs: { ...log.epochActs, plan } });
  const { send, answer, acts } = people(test);
  await send('Anna', 'propose', PLAN);
  const approved = answer('Bert', 'approve');
  await looked.promise;
  test.console.sessions.endAll();
  held.resolve();
  t.match(await approved, { status: 409, text: /session ended before this was done/ });
  t.strictSame(await log.quorums(), [2]);
  t.match((await acts()).at(-1), { act: 'console.approve', outcome: 'failed' });
});
