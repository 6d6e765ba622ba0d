/** What `work` results in, or a rejection with what `late` makes where it takes longer. It is not cancelled: it goes on, and nobody listens. */
export async function within<Result>(ms: number, work: Promise<Result>, late: () => Error): Promise<Result> {
  const { promise: expired, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(late()), ms);
  try {
    return await Promise.race([work, expired]);
  } finally {
    clearTimeout(timer);
  }
}
