import { toRfc3339 } from '../base/clock.ts';
import type { Epochs } from '../log/epochs.ts';
import { encodeQuorum } from '../log/quorum.ts';

export type PresentedEpoch = ReturnType<typeof presentEpochs>[number];

/** Every epoch of the log, the first one first. `now`: milliseconds since the epoch. */
export function presentEpochs({ list }: Pick<Epochs, 'list'>, now: number) {
  return list.map(({ from, keys, quorum, timestamps }, index) => {
    const next = list[index + 1];
    const isPlanned = from > now && index > 0;
    const isPast = next !== undefined && next.from <= now;
    const state = isPlanned ? ('planned' as const) : isPast ? ('past' as const) : ('in force' as const);
    return {
      epoch: index + 1,
      state,
      from: toRfc3339(from),
      ...(next && { until: toRfc3339(next.from) }),
      quorum: encodeQuorum(quorum),
      timestamps,
      keys: keys.map((key) => ({
        region: key.region,
        key_label: key.keyLabel,
        algorithm: key.algorithm,
        ...(key.software && { software: key.software }),
        partition: key.partition,
      })),
    };
  });
}
