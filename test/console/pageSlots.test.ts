/** One person who asks for everything at once: the others, and the API, are served meanwhile. */
import t from 'tap';
import { html } from '../../src/console/html.ts';
import { until } from '../support/until.ts';
import { openScreens } from './testConsole.ts';

t.test('a person gets only a share of the running and of the waiting pages', async (t) => {
  const underWay: string[] = [];
  const most = { all: 0, anna: 0 };
  const gate = Promise.withResolvers<void>();
  const test = await openScreens(t, [
    {
      path: '/slow',
      label: 'Slow',
      routes: [
        {
          ...{ method: 'GET', path: '/slow', role: 'auditor' },
          async answer({ session: { person } }) {
            underWay.push(person.name);
            most.all = Math.max(most.all, underWay.length);
            most.anna = Math.max(most.anna, underWay.filter((name) => name === 'Anna').length);
            await gate.promise;
            underWay.splice(underWay.indexOf(person.name), 1);
            return { title: 'Slow', main: html`seen` };
          },
        },
      ],
    },
  ]);
  const refused: string[] = [];
  const ask = async (name: string) => {
    const answer = await test.get('/slow', { cookie: test.signedIn('auditor', name).cookie });
    if (answer.status === 503) refused.push(name);
    return answer;
  };
  const asked = Array.from({ length: 40 }, () => ask('Anna'));
  await until('she is refused what is too much', () => refused.length === 24);
  t.strictSame(underWay, ['Anna', 'Anna'], 'with all her sessions together');
  const others = ['Berta', 'Carla', 'Dora'].map(ask);
  await until('others have their turn', () => underWay.length === 4);
  t.notOk(underWay.slice(2).includes('Anna'));
  gate.resolve();
  const answers = await Promise.all([...asked, ...others]);
  t.equal(answers.filter(({ status }) => status === 200).length, 19, 'who waits is answered');
  t.match(
    answers.find(({ status }) => status === 503),
    { headers: { 'retry-after': '2', connection: 'close' }, text: /requests at the same time.*reload/s },
  );
  t.strictSame(most, { all: 4, anna: 2 });
  t.equal((await ask('Anna')).status, 200, 'and everything was given back');
});
