import t from 'tap';
import { ServiceError } from '../../src/base/errors.ts';
import { Slots } from '../../src/base/slots.ts';

/** Takes as many as there are to be had. */
function takeAll(slots: Slots, clientId: string): (() => void)[] {
  const taken: (() => void)[] = [];
  for (let give = slots.tryTake(clientId); give; give = slots.tryTake(clientId)) taken.push(give);
  return taken;
}

function refusal(slots: Slots, clientId: string): ServiceError | undefined {
  try {
    slots.take(clientId)();
  } catch (error) {
    return error as ServiceError;
  }
  return undefined;
}

t.test('one client gets at most half', async (t) => {
  const slots = new Slots({ of: 'downloads', max: 16 });
  t.equal(takeAll(slots, 'greedy').length, 8);
  const refused = refusal(slots, 'greedy');
  t.type(refused, ServiceError);
  t.equal(refused?.code, 'too_many_requests');
  t.match(refused?.message, /This client has 8 downloads under way/);
  t.ok((refused?.retryAfterSeconds ?? 0) > 0);
});

t.test('a client that holds nothing gets a place next to greedy ones', async (t) => {
  const slots = new Slots({ of: 'downloads', max: 64 });
  const taken = [1, 2, 3, 4, 5, 6].map((client) => takeAll(slots, `greedy ${client}`).length);
  t.same(taken, [32, 16, 8, 4, 2, 1]);
  t.equal(refusal(slots, 'modest'), undefined);
});

t.test('greedy clients converge to equal shares as their slots are released', async (t) => {
  const slots = new Slots({ of: 'downloads', max: 12 });
  const held = [takeAll(slots, 'first'), takeAll(slots, 'second')];
  for (let round = 0; round < 12; round += 1) {
    for (const [index, name] of ['first', 'second'].entries()) {
      held[index]?.shift()?.();
      held[index]?.push(...takeAll(slots, name));
    }
  }
  t.same(
    held.map((own) => own.length),
    [4, 4],
  );
});

t.test('many small clients leave what is free to a large one', async (t) => {
  const slots = new Slots({ of: 'downloads', max: 100 });
  for (let client = 0; client < 20; client += 1) slots.take(`small ${client}`);
  t.equal(takeAll(slots, 'large').length, 40);
});

t.test('the share per client and the error code can be set', async (t) => {
  const slots = new Slots({ of: 'uploads', max: 4, perClientMax: 4, code: 'too_many_uploads' });
  t.equal(takeAll(slots, 'only').length, 4);
  t.equal(refusal(slots, 'only')?.code, 'too_many_uploads');
  t.equal(refusal(slots, 'other')?.code, 'queue_full');
});

t.test('releasing a slot twice counts once', async (t) => {
  const slots = new Slots({ of: 'uploads', max: 2, perClientMax: 1 });
  const give = slots.take('one');
  slots.take('two');
  give();
  give();
  slots.take('one');
  t.equal(refusal(slots, 'three')?.code, 'queue_full');
});
