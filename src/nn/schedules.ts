/** A learning-rate schedule: the factor at a step (from 0) and an epoch (from 0). */
export type Schedule = (step: number, totalSteps: number, epoch: number) => number;

/** A constant learning rate. */
export const constant: Schedule = () => 1;

/** The steps in which the learning rate rises. */
export function countWarmupSteps(warmupRatio: number, totalSteps: number): number {
  return Math.floor(warmupRatio * totalSteps);
}

/** Rises linearly from 0 over the fraction `warmupRatio` of all steps, then follows `after`. */
export function withWarmup(warmupRatio: number, after: Schedule): Schedule {
  return (step, totalSteps, epoch) => {
    const warmupSteps = countWarmupSteps(warmupRatio, totalSteps);
    return step < warmupSteps ? step / warmupSteps : after(step - warmupSteps, totalSteps - warmupSteps, epoch);
  };
}

/** Falls linearly to 0 at the last step. */
export const linear: Schedule = (step, totalSteps) => Math.max(0, (totalSteps - step) / Math.max(1, totalSteps));

/** One factor per epoch; later epochs use the last factor (RIFT: 0.1, 0.55, 1). */
export function epochFactors(factors: readonly number[]): Schedule {
  return (_step, _totalSteps, epoch) => factors[Math.min(epoch, factors.length - 1)] ?? 1;
}
