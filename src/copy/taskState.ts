/** The state of a task, shared by the main thread and the worker. */
export type TaskState = Int32Array<SharedArrayBuffer>;

const RUNNING = 0;
const ABANDONED = 1;
const OVER = 2;

/** Longest time that an abandoned search may take to end by itself. Replacing the stripper costs more. */
const ENDING_MS_MAX = 100;

export function newTaskState(): TaskState {
  return new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
}

/** Notifies the worker that the result of its task is no longer needed. */
export function abandonTask(state: TaskState): void {
  Atomics.compareExchange(state, 0, RUNNING, ABANDONED);
  Atomics.notify(state, 0);
}

/** Throws if the task was abandoned. */
export function requireWanted(state: TaskState): void {
  if (Atomics.load(state, 0) === ABANDONED) throw new Error('the task was abandoned');
}

export function endTask(state: TaskState): void {
  Atomics.store(state, 0, OVER);
  Atomics.notify(state, 0);
}

/** Calls `kill` if the task is abandoned and does not end soon after that. Never rejects if `kill` does not throw. */
export async function watchTask(state: TaskState, kill: () => void): Promise<void> {
  await Atomics.waitAsync(state, 0, RUNNING).value;
  const outcome = await Atomics.waitAsync(state, 0, ABANDONED, ENDING_MS_MAX).value;
  if (outcome === 'timed-out') kill();
}
