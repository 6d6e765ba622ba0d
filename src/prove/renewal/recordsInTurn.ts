import { SlotQueue } from '../../base/slotQueue.ts';
import { Slots } from '../../base/slots.ts';
import type { Batch } from '../../store/store.ts';
import type { EvidenceRecords } from './renewals.ts';

/** Maximum evidence records being made or waiting: after a renewal, each may need some hundred checkpoints, so they are made in turn. */
const RECORDS_MAX = 16;

export class RecordsInTurn {
  readonly #records: Pick<EvidenceRecords, 'of'>;
  readonly #slots = new Slots({ of: 'evidence records', max: RECORDS_MAX });
  readonly #queue = new SlotQueue({ of: 'evidence records', max: 1, perClientMax: 1 });

  constructor(records: Pick<EvidenceRecords, 'of'>) {
    this.#records = records;
  }

  /** As {@link EvidenceRecords.of}. Throws ServiceError if too many are waiting, in total or for this client. */
  async of(batch: Batch, clientId: string): Promise<Uint8Array | undefined> {
    const leave = this.#slots.take(clientId);
    try {
      const end = await this.#queue.take(clientId);
      return await this.#records.of(batch).finally(end);
    } finally {
      leave();
    }
  }
}
