/** The main process of the unit pdfseal-stripper@.service: a stripper for each connection. */
import { keepCompanions } from '../base/keeper.ts';
import { STRIPPER } from './stripperProcess.ts';

/** Each thread of the daemon that makes copies has one connection. */
const STRIPPERS_MAX = 64;

keepCompanions({ companion: STRIPPER, companionsMax: STRIPPERS_MAX });
