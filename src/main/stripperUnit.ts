/** The main process of the unit pdfseal-stripper@.service: starts a stripper for each connection. */
import { keepCompanions } from '../base/keeper.ts';
import { STRIPPER } from '../copy/stripperProcess.ts';

/** Each thread of the daemon that makes copies has up to three connections. */
const CONNECTIONS_MAX = 256;

keepCompanions(STRIPPER, CONNECTIONS_MAX);
