/** The answers of the administration; members have the spelling of the API. The same schemas give the types and `openapi.json`. */
import * as z from 'zod';
import { runSchema } from '../health/sections/canarySection.ts';
import { partitionSchema } from '../health/sections/partitionsSection.ts';
import { quotasSchema } from '../health/sections/quotasSection.ts';
import { WIRE } from '../health/sections/section.ts';
import { statusSchema } from '../health/statusSchema.ts';
import { carriedOutcomeSchema, carriedRequestSchema } from './carriedSchema.ts';
import { consoleLinkSchema, consoleLogoutSchema } from './consoleLink.ts';
import { renewalStampSchema } from './renewalStamp.ts';

const readiness = statusSchema.pick({ ready: true, parts: true });
const health = z.object({ alive: z.literal(true) });

const acceptedDateSchema = z.object({ from: WIRE.time, to: WIRE.time });

/** The key is the name of the schema in `openapi.json`. */
export const ANSWERS = {
  Health: health,
  Readiness: readiness,
  Status: statusSchema,
  Quotas: quotasSchema,
  Run: runSchema,
  Partition: partitionSchema,
  WitnessRequest: carriedRequestSchema,
  WitnessOutcome: carriedOutcomeSchema,
  RenewalStamp: renewalStampSchema,
  AcceptedDate: acceptedDateSchema,
  ConsoleLink: consoleLinkSchema,
  ConsoleLogout: consoleLogoutSchema,
};
