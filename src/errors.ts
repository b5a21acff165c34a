/**
 * A mistake in what the user gave us: a path, an option, a file's content. The message says what was expected, what came and
 * what to do. The command line prints it without a stack trace and exits with code 2.
 */
export class UserError extends Error {
  override name = "UserError";
}

/** The message of anything that was thrown. */
export function getErrorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Whether a GPU, or its library of products, says that its memory is used up. */
export function isCudaOutOfMemory(error: unknown): boolean {
  return /out of memory|ALLOC_FAILED/i.test(getErrorMessage(error));
}
