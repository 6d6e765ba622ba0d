/**
 * Loaded before every test file (see `.taprc`). tap records each process for its coverage report: it loads itself, and the source
 * maps of all modules, into every process that a test starts. Without a report that is a fifth of the time of the suite, and a
 * process under test gets an environment that its test did not give it. In the process of the test, tap reads the text of every
 * module once more, a fifth of the time of loading it: `.taprc` excludes them all. It also leaves out source maps. Node strips types
 * in place, so lines and columns are those of the sources without any map; to read the maps of tap's own modules took a quarter
 * of the time of an empty test file.
 */
import { createRequire } from 'node:module';

const onSpawn: typeof import('process-on-spawn') = createRequire(import.meta.url)('process-on-spawn');
onSpawn.removeAllListeners();
// It was for this process.
delete process.env.NODE_OPTIONS;
