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
import type { Middleware } from './requestContext.ts';

export interface LogOptions {
  store: Pick<Store, 'log' | 'witnessing'>;
  /** Whether shared caches may keep the answers. */
  public: boolean;
}

/** `GET /v1/log/checkpoint` (C2SP tlog-tiles, "Checkpoints"). Answers 404 while the log is empty. */
export function getCheckpoint({ store }: LogOptions): Middleware {
  return async (ctx) => {
    const head = await store.log.head();
    if (!head) throw new ServiceError('not_found', 'The log is empty and has no checkpoint yet.');
    const { cosigned } = await store.witnessing.get();
    sendNote(ctx, cosigned?.treeSize === head.treeSize ? cosigned.checkpoint : head.checkpoint);
  };
}

/** `GET /v1/log/checkpoint/witnessed`: the newest that the quorum of witnesses has cosigned. Answers 404 until there is one. */
export function getWitnessedCheckpoint({ store }: LogOptions): Middleware {
  return async (ctx) => {
    const { witnessed } = await store.witnessing.get();
    if (!witnessed) throw new ServiceError('not_found', 'Witnesses have not cosigned a checkpoint yet.');
    sendNote(ctx, witnessed.checkpoint);
  };
}

function sendNote(ctx: Parameters<Middleware>[0], note: string): void {
  ctx.set('Cache-Control', 'no-cache');
  ctx.type = 'text/plain; charset=utf-8';
  ctx.body = note;
}

/**
 * `GET /v1/log/tile/…`: hash tiles and entry bundles (C2SP tlog-tiles). A partial tile is a prefix of the later, wider tile, so every
 * earlier width stays available.
 */
export function getTile({ store, public: isPublic }: LogOptions): Middleware {
  return async (ctx) => {
    // Generated clients percent-encode the slashes of a parameter.
    const path = parseTilePath(ctx.path.slice('/v1/log/'.length).replaceAll(/%2F/gi, '/'));
    const data = path && (await readTile(store, path));
    if (!data) throw new ServiceError('not_found', 'The log has no such tile, or not yet with this width.');
    ctx.set('Cache-Control', `${isPublic ? 'public' : 'private'}, max-age=31536000, immutable`);
    ctx.type = 'application/octet-stream';
    ctx.body = data;
  };
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
