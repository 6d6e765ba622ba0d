import { config } from 'zod';

// Imported before any schema is made: compiling one takes eval, which the page's own policy forbids.
config({ jitless: true });
