/**
 * Resolves as `work` does, or rejects with the error made by `late` if it takes longer. The work is not cancelled: it continues, and its
 * result is discarded.
 */
export async function within<Result>(ms: number, work: Promise<Result>, late: () => Error): Promise<Result> {
  const { promise: expired, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(late()), ms);
  try {
    return await Promise.race([work, expired]);
  } finally {
    clearTimeout(timer);
  }
}
