/** Who is signed in, and how somebody is sent away. */
import t from 'tap';
import { Sessions } from '../../src/console/sessions.ts';
import { openTestConsole } from './testConsole.ts';

t.test('the sessions and links of one person end, and no others', async (t) => {
  let now = 0;
  const sessions = new Sessions(() => now);
  const begin = (name: string) => sessions.begin(sessions.invite({ name, role: 'auditor' }));
  const [anna, again, berta] = [begin('Anna'), begin('Anna'), begin('Berta')];
  const links = ['Anna', 'Berta'].map((name) => sessions.invite({ name, role: 'auditor' }));
  now += 1000;
  sessions.find(anna?.cookie ?? '', { isUse: true });
  now += 2000;
  t.match(sessions.list(), [
    { id: berta?.session.id, person: { name: 'Berta' }, beganMs: 3000, usedMs: 3000 },
    { id: again?.session.id, person: { name: 'Anna' }, beganMs: 3000, usedMs: 3000 },
    { id: anna?.session.id, person: { name: 'Anna' }, beganMs: 3000, usedMs: 2000 },
  ]);
  t.equal(sessions.endAll('Anna'), 2);
  t.strictSame(
    [anna, again, berta].map((one) => one?.session.ended.aborted),
    [true, true, false],
  );
  t.strictSame(
    links.map((link) => sessions.invited(link)?.name),
    [undefined, 'Berta'],
  );
  t.equal(sessions.endAll('Nobody'), 0);
  t.strictSame(sessions.endOne(berta?.session.id ?? ''), { name: 'Berta', role: 'auditor' });
  t.equal(sessions.endOne(berta?.session.id ?? ''), undefined);
  t.strictSame(sessions.list(), []);
});

t.test('an administrator sees who is signed in, and ends one session', async (t) => {
  const test = await openTestConsole(t);
  const [anna, other] = [test.signedIn('auditor'), test.signedIn('operator', 'Clara')];
  const shown = await test.get('/access/sessions', { cookie: anna.cookie });
  t.match(shown.text, /Clara.*operator.*Anna.*auditor.*this session/s);
  t.notMatch(shown.text, /sessions\/\w+\/end/, 'an auditor ends none');
  const [id = ''] = test.console.sessions
    .list()
    .filter(({ person }) => person.name === 'Clara')
    .map((one) => one.id);
  const path = `/access/sessions/${id}/end`;
  t.match(await test.submit(path, {}, 'operator'), { status: 403 });
  t.match(await test.post(path, {}, { cookie: test.signedIn().cookie }), { status: 403 }, 'no token');
  const ended = await test.submit(path, {});
  t.match(ended, { status: 303, shown: /A session of Clara has ended\..*<tbody>(?!.*Clara)/s });
  t.match(await test.get('/', { cookie: other.cookie }), { status: 401 });
  t.match(await test.get('/', { cookie: anna.cookie }), { status: 200 });
  t.match(await test.submit(path, {}), { status: 404, text: /has already ended/ });
  const actor = { via: 'console', person: 'Berta', role: 'administrator' };
  t.match(await test.acts(), [{ act: 'console.logout', actor, object: { name: 'Clara', sessions: 1 } }]);
});

t.test('an unknown cookie does not cause a look at the certificate', async (t) => {
  const sessions = new Sessions(() => 0);
  const looks: string[] = [];
  const holds = () => looks.push('a look') > 0;
  const begun = sessions.beginBound({ name: 'Anna', role: 'auditor' }, { certificate: 'hers', holds });
  t.equal(sessions.find('of nobody', { isUse: true, certificate: 'hers' }), undefined);
  t.strictSame(looks, []);
  t.equal(sessions.find(begun?.cookie ?? '', { isUse: true, certificate: 'hers' }), begun?.session);
  t.equal(looks.length, 1);
});
