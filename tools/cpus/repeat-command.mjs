// How to repeat a test under the variables that change the last bits of results.

/** Variables that choose the instructions, the order of sums, or the bits that native/binding/jitter.cc moves. */
const variables = ["ATEN_CPU_CAPABILITY", "MKL_CBWR", "OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "TEMPER_JITTER"];

/** @param {string} text */
const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/**
 * The command that repeats a test, or a file if no name is given. Null if no variable is set.
 * @param {Readonly<Record<string, string | undefined>>} env
 * @param {string} file
 * @param {readonly string[]} names of the test and the groups around it, from the outside in
 * @returns {string | null}
 */
export function formatRepeatCommand(env, file, names = []) {
  const set = variables.filter((name) => env[name] !== undefined).map((name) => `${name}=${env[name]}`);
  if (set.length === 0) return null;
  // Vitest takes the name as a regular expression.
  const pattern = names.join(" ").replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return [...set, "npx vitest run", file, ...(names.length > 0 ? ["-t", quote(pattern)] : [])].join(" ");
}
