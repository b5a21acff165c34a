import { z } from "zod";

const error = "expected a share in (0, 1], such as 0.6";

/** A share that is not nothing. */
export const fractionSchema = z.number({ error }).gt(0, error).lte(1, error);
