/** The program as it is installed. Test files that start it are listed in vitest.config.ts, so that it is built. */
export const main = "dist/cli/main.js";
