/** What two people are asked to do, for pages that show it: nothing happens when they do. */
import type { EpochActs, Prepared } from '../../src/console/proposals.ts';
import { sampleEpochs } from './sampleStatus.ts';

/** A plan that lowers the quorum from 3 to 2, with what a test changes of the epoch in force. */
export function sampleProposal(inForce: Partial<Prepared['inForce']> = {}): EpochActs {
  const [, epoch] = sampleEpochs();
  if (epoch === undefined) throw new Error('no epoch');
  const { until: _, ...open } = epoch;
  const prepared: Prepared = {
    act: 'epoch.plan',
    inForce: { ...open, quorum: 3, ...inForce },
    epoch: { ...open, epoch: 3, state: 'planned', from: '2027-01-01T06:00:00.000Z', quorum: 2 },
    lowersQuorum: true,
    newRoots: [],
    sha256: 'ab'.repeat(32),
    carryOut: async () => {},
  };
  return { plan: async () => prepared, cancel: async () => prepared };
}
