import { ServiceError } from '../base/errors.ts';
import {
  encodeEntryBundle,
  HASH_BYTES,
  parseTilePath,
  TILE_WIDTH,
  type TilePath,
  tileWidth,
} from '../log/tiles.ts';
import type { Store } from '../store/store.ts';
import type { Middleware, RequestContext } from './requestContext.ts';

interface LogOptions {
  store: Pick<Store, 'log' | 'witnessing'>;
  /** Whether shared caches may keep the answers. */
  public: boolean;
}

/** Handlers of the operations on the log (C2SP tlog-tiles). */
export function logHandlers({ store, public: isPublic }: LogOptions) {
  return {
    /** Answers 404 while the log is empty. */
    async getCheckpoint(ctx) {
      const head = await store.log.head();
      if (!head) throw new ServiceError('not_found', 'The log is empty and has no checkpoint yet.');
      const { cosigned } = await store.witnessing.get();
      sendNote(ctx, cosigned?.treeSize === head.treeSize ? cosigned.checkpoint : head.checkpoint);
    },

    /** The newest checkpoint cosigned by the quorum of witnesses. Answers 404 until there is one. */
    async getWitnessedCheckpoint(ctx) {
      const { witnessed } = await store.witnessing.get();
      if (!witnessed) throw new ServiceError('not_found', 'Witnesses have not cosigned a checkpoint yet.');
      sendNote(ctx, witnessed.checkpoint);
    },

    /** A partial tile is a prefix of the later, wider tile, so every earlier width stays available. */
    async getTile(ctx) {
      // Generated clients percent-encode the slashes of a parameter.
      const path = parseTilePath(ctx.path.slice('/v1/log/'.length).replaceAll(/%2F/gi, '/'));
      const data = path && (await readTile(store, path));
      if (!data) throw new ServiceError('not_found', 'The log has no such tile, or not yet with this width.');
      ctx.set('Cache-Control', `${isPublic ? 'public' : 'private'}, max-age=31536000, immutable`);
      ctx.type = 'application/octet-stream';
      ctx.body = data;
    },
  } satisfies Record<string, Middleware>;
}

function sendNote(ctx: RequestContext, note: string): void {
  ctx.set('Cache-Control', 'no-cache');
  ctx.type = 'text/plain; charset=utf-8';
  ctx.body = note;
}

async function readTile(store: LogOptions['store'], path: TilePath): Promise<Buffer | undefined> {
  const { level, index, width } = path;
  const size = (await store.log.head())?.treeSize ?? 0;
  if (tileWidth(level === 'entries' ? 0 : level, index, size) < width) return undefined;
  if (level === 'entries') {
    const first = index * TILE_WIDTH;
    const leaves = await store.log.leaves(first, first + width);
    return Buffer.from(encodeEntryBundle(leaves.map((leaf) => leaf.data)));
  }
  const hashes = await store.log.tile(level, index);
  return hashes && Buffer.from(hashes.subarray(0, width * HASH_BYTES));
}
