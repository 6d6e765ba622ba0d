import type { CertificateSources } from '../tsa/certificateList.ts';
import type { Config } from './config.ts';
import { BUILT_IN } from './schema.ts';

/** The certificates of the authorities that are in use: those of others may expire. */
export function certificatesInUse({ timestamp, certificatesDir }: Config): CertificateSources {
  const { authorities, keys, remotes } = timestamp;
  return {
    certificatesDir,
    keys: authorities.includes(BUILT_IN) ? keys : [],
    remotes: Object.fromEntries(Object.entries(remotes).filter(([name]) => authorities.includes(name))),
  };
}
