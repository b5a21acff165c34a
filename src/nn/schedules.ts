/** A learning-rate schedule: the factor on the base rate at an update (from 0) of so many, in an epoch (from 0). */
export type Schedule = (update: number, updates: number, epoch: number) => number;

export const constant: Schedule = () => 1;

/** Rises linearly from 0 over the first `warmup` share of updates, then follows `after` (given the whole run's counts). */
export function withWarmup(warmup: number, after: Schedule): Schedule {
  return (update, updates, epoch) => {
    const warmupSteps = Math.floor(warmup * updates);
    return update < warmupSteps ? update / warmupSteps : after(update - warmupSteps, updates - warmupSteps, epoch);
  };
}

/** Falls linearly to 0 at the end. */
export const linear: Schedule = (update, updates) => Math.max(0, (updates - update) / Math.max(1, updates));

/** One factor an epoch; the last one holds on (RIFT: 0.1, 0.55, 1). */
export function epochFactors(factors: readonly number[]): Schedule {
  return (_update, _updates, epoch) => factors[Math.min(epoch, factors.length - 1)] ?? 1;
}
