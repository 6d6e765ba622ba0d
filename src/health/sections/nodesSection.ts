import * as z from 'zod';
import type { OtherNode } from '../../store/nodes.ts';
import { by, showAs } from './section.ts';

export const nodesSchema = z
  .array(z.object({ name: z.string(), role: z.enum(['front', 'sealing']), version: z.string() }))
  .describe(
    'The other daemons that work with the same database, as they say themselves. A daemon that waits for its turn says nothing. Only where the log is in PostgreSQL.',
  );
type NodesSection = z.infer<typeof nodesSchema>;

/** In the order of their names. */
export function presentNodes(others: readonly OtherNode[]): NodesSection {
  return others.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

showAs(nodesSchema, [
  by(
    'role',
    'pdfseal_other_nodes',
    'Where the log is in PostgreSQL: other daemons that work with it, by role',
    (nodes) => ['front', 'sealing'].map((role) => [role, nodes.filter((node) => node.role === role).length]),
  ),
]);
