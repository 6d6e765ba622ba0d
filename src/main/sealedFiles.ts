import { systemClock } from '../base/clock.ts';
import type { SealedFiles } from '../console/sources.ts';
import { readVerified } from '../copy/copies.ts';
import { type DocumentRouteOptions, keptCopy } from '../http/documentRoute.ts';
import { beginningOf } from '../http/sealedPdfs.ts';
import { encodeBundle } from '../manifest/bundle.ts';
import { encodeReceipt } from '../manifest/receipt.ts';
import { encodeTrust, type TrustFile } from '../manifest/trustFile.ts';
import { RecordsInTurn } from '../prove/renewal/recordsInTurn.ts';
import { pathsNow } from '../prove/renewal/renewalStandings.ts';
import { EvidenceRecords } from '../prove/renewal/renewals.ts';
import { readBundle, readReceipt, readSuffix, readTlogProof } from '../prove/trail/receipts.ts';
import type { Store } from '../store/store.ts';

export interface SealedFilesOptions extends Pick<DocumentRouteOptions, 'copies' | 'retentionMs' | 'time'> {
  store: Store;
  trust(): TrustFile;
}

/** The files of a sealed job for the console: byte for byte those of the API. */
export function sealedFilesOf({ store, trust, copies, ...kept }: SealedFilesOptions): SealedFiles {
  const path = pathsNow(() => trust().timestampAuthorities, systemClock);
  const records = new RecordsInTurn(new EvidenceRecords(store, { path }));
  return {
    receipt: async (job, { leafIndex }) => encodeReceipt(await readReceipt(store, job, leafIndex)),
    proof: (job, { leafIndex }) => readTlogProof(store, job, leafIndex),
    record: (batch, reader) => records.of(batch, reader),
    async bundle(job, { leafIndex }, reader) {
      const bundle = await readBundle(store, job, leafIndex, {
        recordOf: (batch) => records.of(batch, reader),
        revocationLists: trust().revocationLists ?? [],
      });
      return bundle && encodeBundle(bundle);
    },
    async copy(job) {
      const digests = job.content?.sealedDocument;
      const copy = digests && (await keptCopy(job, { store, ...kept }));
      const file = copy && (await copies.find(copy, digests.bytes));
      return file && readVerified(file, digests.sha256);
    },
    suffix: (job, { leafIndex }) => readSuffix(store, job, leafIndex),
    async sealedPdf(job, { leafIndex }) {
      const suffix = await readSuffix(store, job, leafIndex);
      const copy = suffix && (await keptCopy(job, { store, ...kept }));
      if (suffix === undefined || copy === undefined) return undefined;
      const { bytes, sha256 } = beginningOf(job);
      const file = await copies.find(copy, bytes);
      if (file === undefined) return undefined;
      return (async function* () {
        yield* readVerified(file, sha256);
        yield suffix;
      })();
    },
    trust: () => encodeTrust(trust()),
  };
}
