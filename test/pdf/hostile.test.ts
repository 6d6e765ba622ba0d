/** Documents made to hide XMP, and what other people's tools find in the copies. test/pdf/README.md tells of a long run. */
import t from 'tap';
import { openDocument } from './generate.ts';
import { tryHostile } from './hostile.ts';

/** The same in every run: what fails here fails everywhere. */
const SEED = 1;
/** A tenth of a long run. */
const DOCUMENTS = 10_000;

t.test('no XMP is left in any copy that is released', async (t) => {
  const outcome = await tryHostile({ documents: DOCUMENTS, seed: SEED });
  t.same(outcome.faults, []);
  t.equal(outcome.documents, DOCUMENTS);
  t.ok(
    outcome.released >= 50 && outcome.edits >= 50,
    `${outcome.released} released, ${outcome.edits} removed`,
  );
});

t.test('the tools find XMP that a faulty stripper leaves', async (t) => {
  const open = await tryHostile({ documents: 3, seed: SEED, make: openDocument, mutant: 'leaves-one' });
  t.same(open.seen, { qpdf: 3, mutool: 3, exiftool: 3 }, 'each sees what lies open');
  const lax = await tryHostile({ documents: 50, seed: SEED, mutant: 'releases-refused' });
  t.ok(lax.seen.qpdf > 0 && lax.seen.mutool > 0, 'and what is refused');
  t.equal(lax.faults.length, new Set(lax.faults).size);
  const careless = await tryHostile({ documents: 100, seed: SEED, mutant: 'leaves-one' });
  t.ok(careless.faults.length > 0, 'and one piece that is left');
});
