/* assay_judge.h: the judge as a library in your own process, for tests in any language that calls C. What it says is what
 * `assay judge` says, without a process and without files; it runs no kernel.
 *
 *   assay_array tensors[] = {
 *       {"x", "F32", (const int64_t[]){4, 1000}, 2, x, sizeof x},   an input, as the kernel got it
 *       {"y", "F32", (const int64_t[]){4, 1000}, 2, y, sizeof y}};  an output, as the kernel left it
 *   char* text = NULL;
 *   int code = assay_judge("softmax rows=4 cols=1000 dtype=f32", "acc=f32 exp_ulp=2", 0, tensors, 2, &text);
 *   if (code != ASSAY_GREEN) fputs(text, stderr);
 *   assay_free(text);
 *
 * Every function may be called by several threads at once. The floating-point environment of the calling thread (rounding
 * mode, flushing of subnormals, exception flags) is set to IEEE 754's default for the call and is the caller's again behind
 * it. No function throws, prints, or keeps what it was given. Link libassay_judge.so. */
#ifndef ASSAY_JUDGE_H_
#define ASSAY_JUDGE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ASSAY_JUDGE_API __attribute__((visibility("default")))
#else
#define ASSAY_JUDGE_API
#endif

/* What a function ends with; the numbers are those of the program's exit codes. */
enum {
  ASSAY_GREEN = 0,       /* every output is within its limit */
  ASSAY_FINDING = 1,     /* it is not */
  ASSAY_USAGE = 2,       /* the text says what cannot be judged, and what is allowed */
  ASSAY_CANNOT_RUN = 125 /* not enough memory, or a processor or build whose arithmetic is not IEEE 754's */
};

/* flags of assay_judge */
enum {
  ASSAY_STRICT =
      1 /* a pass that could not have shown an error of 10 % in half of its elements is a finding */
};

/* One tensor, its elements one behind the other, the last axis fastest. */
typedef struct assay_array {
  const char* name;     /* as the page of the op has it: "x", "k", "k.scale", "y" (assay manual OP) */
  const char* type;     /* as safetensors has it: F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I8, U8 */
  const int64_t* shape; /* any shape of as many elements as the case's tensor has */
  int32_t rank;
  const void* data;
  size_t bytes;
} assay_array;

/* Judges the outputs among `tensors` by its inputs. line: the case ("OP key=value ..."). contract: the arithmetic that the
 * kernel declares, as in the program; NULL is the op's own defaults. *text: the verdict, of several lines, or why there is
 * none; it is always set, and given back with assay_free. text may be NULL. */
ASSAY_JUDGE_API int assay_judge(const char* line, const char* contract, unsigned flags,
                                const assay_array* tensors, size_t count, char** text);

/* The cases of a line, in which a comma is a set and sets multiply: *text has one line for each. */
ASSAY_JUDGE_API int assay_list_cases(const char* line, char** text);

/* One case with its inputs, made by its fill and seed. Ends with ASSAY_GREEN and a case at *made, which is given back with
 * assay_free_case, or with another code, its reason at *text and NULL at *made. */
typedef struct assay_case assay_case;
ASSAY_JUDGE_API int assay_make_case(const char* line, assay_case** made, char** text);
/* Its tensors, *count of them, as long as the case lives. The outputs have no data: name, type, shape and bytes are those of the
 * memory that a kernel has to fill, and assay_judge is given. */
ASSAY_JUDGE_API const assay_array* assay_case_inputs(const assay_case* made, size_t* count);
ASSAY_JUDGE_API const assay_array* assay_case_outputs(const assay_case* made, size_t* count);
/* The value of an attribute, those at their defaults included, as long as the case lives; NULL where the case has none of that
 * name. */
ASSAY_JUDGE_API const char* assay_case_attribute(const assay_case* made, const char* name);
ASSAY_JUDGE_API void assay_free_case(assay_case* made);

/* What the outputs of a kernel have to be, by its inputs: the middle v of what a kernel that keeps `contract` can make of an
 * element, and the largest distance from it. v is the exact result, rounded to double, unless the contract declares roundings in
 * between, which move the middle; or a schedule, or an order and a matrix unit, that fix every bit: then v is what these give. An
 * element y is right where |y - v| <= limit, read as follows: a NaN where v is NaN, v itself where v is an infinity; a limit of INFINITY claims nothing; one of DBL_MAX allows any
 * finite number. Of an op whose later outputs depend on the earlier ones as they were stored (a quantiser's codes on its
 * scales) the limits hold for every choice that the contract leaves; assay_judge, which sees what was stored, is narrower.
 * Ends as assay_make_case does. Tensors among `tensors` that are no inputs are left. */
typedef struct assay_truths assay_truths;
ASSAY_JUDGE_API int assay_make_truths(const char* line, const char* contract, const assay_array* tensors,
                                      size_t count, assay_truths** made, char** text);
/* One tensor of type F64 for each output, by its name, as long as the truths live. */
ASSAY_JUDGE_API const assay_array* assay_truth_values(const assay_truths* made, size_t* count);
ASSAY_JUDGE_API const assay_array* assay_truth_limits(const assay_truths* made, size_t* count);
ASSAY_JUDGE_API void assay_free_truths(assay_truths* made);

/* The numbers that a tensor's bytes stand for, under any format of `assay list formats`. shape, rank: the tensor's, in elements.
 * planes: those on the page of the format (`assay manual FORMAT`), each named by what stands there behind the tensor's name ("",
 * ".scale"); codes that share a byte, and blocks, are U8. values: room for one double per element, exact or the nearest. An
 * element under an f32 scale that is NaN, infinite or negative is NaN: bytes that somebody stored are not refused for it. */
ASSAY_JUDGE_API int assay_decode(const char* format, const int64_t* shape, int32_t rank,
                                 const assay_array* planes, size_t count, double* values, char** text);
/* What is left of `values` when the format's own quantiser, as its page tells it, has stored them: encoded to nearest even and
 * decoded. rounded: room for one double per element. */
ASSAY_JUDGE_API int assay_round_to(const char* format, const int64_t* shape, int32_t rank,
                                   const float* values, double* rounded, char** text);

/* From now on the formula's op is one of this process (docs/formulas.md). A name that another formula has is refused; the same
 * text again is not. *text as above. */
ASSAY_JUDGE_API int assay_add_formula(const char* formula, char** text);

/* How many threads one call may use; 0, the default: as many as the process may run on. What is computed does not depend on it. */
ASSAY_JUDGE_API void assay_set_threads(int threads);

ASSAY_JUDGE_API const char* assay_version(void);

ASSAY_JUDGE_API void assay_free(void* memory);

#ifdef __cplusplus
}
#endif

#endif
