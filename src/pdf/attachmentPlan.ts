import * as z from 'zod';
import { type AttachmentPlan, PLAN_BYTES_MAX, SUFFIX_FORMAT } from './update/suffix.ts';

/** The bytes of PDF syntax, each as a character. */
const pdfText = z.string().regex(/^[\0-\xff]*$/);

/** The plan of an attachment, as another process can have written it. */
export const attachmentPlan = z
  .strictObject({
    format: z.literal(SUFFIX_FORMAT),
    bytes: z.int().min(1),
    name: z.string().max(100),
    lead: z.enum(['', '\n']),
    catalog: z.strictObject({
      number: z.int().min(1),
      generation: z.int().min(0).max(65_535),
      text: pdfText,
    }),
    first: z.int().min(1),
    objects: z.array(pdfText),
    section: z.enum(['table', 'stream']),
    trailer: pdfText,
  })
  .refine((plan) => JSON.stringify(plan).length <= PLAN_BYTES_MAX) satisfies z.ZodType<AttachmentPlan>;
