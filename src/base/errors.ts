/**
 * An error in the user's input: a path, an option, the content of a file. The message says what is
 * wrong and what to do. The command line prints it without a stack trace and exits with code 2.
 *
 * @example
 * if (error instanceof UserError) console.error(error.message);
 */
export class UserError extends Error {
  override name = "UserError";
}

/**
 * Thrown when a signal stops an action. Its state has been saved before.
 *
 *     if (error instanceof Interrupted) console.log("Continue later with resume: true.");
 */
export class Interrupted extends Error {
  override name = "Interrupted";
  /** The command line that continues, if it is another one than that which was stopped. */
  continueWith: readonly string[] | null = null;
}

export function getErrorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns true if the operating system reported an error, such as ENOSPC or EIO. */
export function isSystemError(error: unknown): boolean {
  return error instanceof Error && "syscall" in error && "code" in error;
}

/** Returns true if an error means that CUDA or cuBLAS is out of memory. */
export function isCudaOutOfMemory(error: unknown): boolean {
  return /out of memory|ALLOC_FAILED/i.test(getErrorMessage(error));
}
