// Takes the lock, has a child of its own, and waits to be killed.
import { spawn } from 'node:child_process';
import { acquireLock } from '../../src/base/lock.ts';

const [path = ''] = process.argv.slice(2);
acquireLock(path);
const child = spawn('sleep', ['60'], { stdio: 'ignore' });
console.log(`locked ${child.pid}`);
