import { config } from 'zod';

// Must be imported before any schema is created: compiling a schema uses eval, which the page's own policy forbids.
config({ jitless: true });
