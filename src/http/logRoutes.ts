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
  store: Pick<Store, 'log'>;
  /** Whether caches shared between clients may keep what is served. */
  public: boolean;
}

/** `GET /v1/log/checkpoint` (C2SP tlog-tiles, "Checkpoints"). An empty log has none: 404. */
export function getCheckpoint({ store }: LogOptions): Middleware {
  return async (ctx) => {
    const head = await store.log.head();
    if (!head) throw new ServiceError('not_found', 'The log is still empty and has no checkpoint.');
    ctx.set('Cache-Control', 'no-cache');
    ctx.type = 'text/plain; charset=utf-8';
    ctx.body = head.checkpoint;
  };
}

/**
 * `GET /v1/log/tile/…`: hash tiles and entry bundles (C2SP tlog-tiles). A partial tile is a prefix of what the tile has become,
 * so that every width there ever was stays available.
 */
export function getTile({ store, public: isPublic }: LogOptions): Middleware {
  return async (ctx) => {
    // Generated clients encode the slashes of a parameter.
    const path = parseTilePath(ctx.path.slice('/v1/log/'.length).replaceAll(/%2F/gi, '/'));
    const data = path && (await readTile(store, path));
    if (!data) throw new ServiceError('not_found', 'The log has no such tile, or not yet of this width.');
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
