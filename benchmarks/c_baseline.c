/* TOFU, OFUL, CRT and MENU on a fixed decision set, as a careful C programmer writes them: a floor for linbet_jax.

   One replication at a time, so that its state stays in the first cache. Float64. The sizes are constants of the
   compilation, so that short loops are unrolled; rows are padded with zeros to whole vectors, and the innermost loops
   run over numbers that do not depend on each other. Levels and radii depend on the pull alone, or nearly: they come in
   tables that all replications share. Noise comes as standard variates, one a pull.

   Every policy fills played [horizon] and returns the pseudo-regret. Indices within 1e-11 of the largest tie, and the
   lowest arm wins, as in linbet_jax. */

#include <math.h>
#include <string.h>

#ifndef DIM
#define DIM 10 /* d */
#endif
#ifndef ARMS
#define ARMS 20 /* K */
#endif
#ifndef SHIFTS
#define SHIFTS 24 /* of TOFU's root */
#endif
#ifndef GROUPS
#define GROUPS 317 /* k, MENU's pulls an epoch */
#endif

#ifdef __AVX512F__
#define LANES 8 /* doubles of a vector */
#else
#define LANES 4
#endif
#define PADDED(n) (((n) + LANES - 1) / LANES * LANES)
#define ROW PADDED(DIM)
#define SET PADDED(ARMS)
#define ALIGNED __attribute__((aligned(64)))
#define TIE 1e-11

typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));

/* payoff = shift + scale * variate */
struct bandit {
    const double *arms;                 /* [ARMS][DIM] */
    const double *shift, *scale, *gaps; /* [ARMS] */
};

/* Small algebra ---------------------------------------------------------------------------------------------------- */

/* out [ROW] = matrix vector, for a symmetric matrix */
static inline void times(double *restrict out, double matrix[DIM][ROW], const double *vector)
{
    double sum[ROW] ALIGNED = {0};
    for (int j = 0; j < DIM; j++)
#pragma omp simd
        for (int i = 0; i < ROW; i++)
            sum[i] += matrix[j][i] * vector[j];
    memcpy(out, sum, sizeof sum);
}

static inline double dot(const double *a, const double *b)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < ROW; i++)
        sum += a[i] * b[i];
    return sum;
}

static inline double total(lanes v)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            v[l] += v[l + half];
    return v[0];
}

/* The decision set, and V = ridge I + sum x x^T over the arms x played ---------------------------------------------- */

struct design {
    double rows[ARMS][ROW] ALIGNED;    /* the arms */
    double columns[DIM][SET] ALIGNED;  /* the same, turned */
    double inverse[DIM][ROW] ALIGNED;  /* V^-1 */
    double squared[SET] ALIGNED;       /* x^T V^-1 x of every arm x */
    double gains[SET] ALIGNED;         /* x^T V^-1 x_t of every arm x, for the arm x_t played last */
    double log_det;                    /* ln(det V / det(ridge I)) */
};

static void start(struct design *v, const double *arms, double ridge)
{
    memset(v, 0, sizeof *v);
    for (int a = 0; a < ARMS; a++)
        for (int i = 0; i < DIM; i++) {
            double x = arms[a * DIM + i];
            v->rows[a][i] = v->columns[i][a] = x;
            v->squared[a] += x * x / ridge;
        }
    for (int i = 0; i < DIM; i++)
        v->inverse[i][i] = 1 / ridge;
}

/* out [SET] = <x, vector> of every arm x */
static inline void values_of(double *restrict out, struct design *v, const double *vector)
{
    double sum[SET] ALIGNED = {0};
    for (int i = 0; i < DIM; i++)
#pragma omp simd
        for (int a = 0; a < SET; a++)
            sum[a] += v->columns[i][a] * vector[i];
    memcpy(out, sum, sizeof sum);
}

/* The arm of the largest value + radius ||x|| in V^-1 */
static inline int choose(const double *values, struct design *v, double radius)
{
    double index[SET] ALIGNED, largest = -INFINITY;
#pragma omp simd
    for (int a = 0; a < SET; a++)
        index[a] = values[a] + radius * sqrt(v->squared[a] > 0 ? v->squared[a] : 0);
#pragma omp simd reduction(max : largest)
    for (int a = 0; a < ARMS; a++)
        largest = index[a] > largest ? index[a] : largest;
    double least = largest - TIE * fabs(largest);
    int arm = 0;
    while (arm < ARMS - 1 && index[arm] < least)
        arm++;
    return arm;
}

/* V + x x^T for x = arms[arm], by Sherman and Morrison */
static inline void add(struct design *v, int arm)
{
    const double *x = v->rows[arm];
    double image[ROW] ALIGNED, scaled[ROW] ALIGNED;
    times(image, v->inverse, x);
    double grown = 1 + dot(x, image), unit = 1 / grown;
    for (int i = 0; i < ROW; i++)
        scaled[i] = image[i] * unit; /* V_new^-1 x */
    for (int j = 0; j < DIM; j++)
#pragma omp simd
        for (int i = 0; i < ROW; i++)
            v->inverse[j][i] -= image[j] * scaled[i];
    values_of(v->gains, v, scaled);
#pragma omp simd
    for (int a = 0; a < SET; a++)
        v->squared[a] -= grown * v->gains[a] * v->gains[a];
    v->log_det += log(grown);
}

/* OFUL and CRT ----------------------------------------------------------------------------------------------------- */

/* One ridge estimate of the payoffs that are at most level[t]. The radius is first for t = 0, and
   factor[t] sqrt(log_det + inner[t]) + outer[t] after pull t. */
double ridge_rounds(struct bandit bandit, double ridge, int horizon, const double *noise, const double *level,
                    double first, const double *factor, const double *inner, const double *outer, int *played)
{
    struct design v;
    double values[SET] ALIGNED = {0}, radius = first, regret = 0;
    start(&v, bandit.arms, ridge);
    for (int t = 0; t < horizon; t++) {
        int arm = choose(values, &v, radius);
        double payoff = bandit.shift[arm] + bandit.scale[arm] * noise[t];
        played[t] = arm;
        regret += bandit.gaps[arm];
        add(&v, arm);
        double step = (fabs(payoff) <= level[t] ? payoff : 0) - values[arm];
#pragma omp simd
        for (int a = 0; a < SET; a++)
            values[a] += step * v.gains[a];
        radius = factor[t] * sqrt(v.log_det + inner[t]) + outer[t];
    }
    return regret;
}

/* TOFU ------------------------------------------------------------------------------------------------------------- */

enum { PARTS = PADDED(SHIFTS) / LANES, TRIANGLE = DIM * (DIM + 1) / 2, DOUBTFUL = 512 };

/* V^-1/2 as a weighted sum of inverses (V + shift I)^-1, LANES of them side by side and their lower triangles alone.
   They lag a pull behind: the next pass brings in that pull, from image and scaled, on its way to the new image. */
struct roots {
    lanes weights[PARTS];
    lanes inverses[PARTS][TRIANGLE];
    lanes image[PARTS][DIM];  /* (V + shift I)^-1 x of the last pull, before it */
    lanes scaled[PARTS][DIM]; /* and after it */
    double root[DIM][ROW] ALIGNED;
};

static void start_roots(struct roots *r, double ridge, const double *shifts, const double *weights)
{
    memset(r, 0, sizeof *r);
    for (int q = 0; q < SHIFTS; q++) {
        r->weights[q / LANES][q % LANES] = weights[q];
        for (int i = 0; i < DIM; i++) {
            r->inverses[q / LANES][i * (i + 3) / 2][q % LANES] = 1 / (ridge + shifts[q]);
            r->root[i][i] += weights[q] / (ridge + shifts[q]);
        }
    }
}

static inline void add_to_roots(struct roots *r, const double *x)
{
    lanes weighted[PARTS][DIM];
    for (int part = 0; part < PARTS; part++) {
        lanes *row = r->inverses[part], *image = r->image[part], *scaled = r->scaled[part];
        lanes fresh[DIM], grown;
        memset(fresh, 0, sizeof fresh);
#pragma GCC unroll 32
        for (int i = 0; i < DIM; row += ++i) {
#pragma GCC unroll 32
            for (int j = 0; j < i; j++) {
                row[j] -= scaled[i] * image[j];
                fresh[i] += row[j] * x[j];
                fresh[j] += row[j] * x[i];
            }
            row[i] -= scaled[i] * image[i];
            fresh[i] += row[i] * x[i];
        }
        grown = 1 + fresh[0] * x[0];
        for (int i = 1; i < DIM; i++)
            grown += fresh[i] * x[i];
        lanes unit = 1 / grown;
        for (int i = 0; i < DIM; i++) {
            image[i] = fresh[i];
            scaled[i] = fresh[i] * unit;
            weighted[part][i] = scaled[i] * r->weights[part];
        }
    }
    for (int i = 0; i < DIM; i++)
        for (int j = 0; j <= i; j++) {
            lanes change = weighted[0][i] * r->image[0][j];
            for (int part = 1; part < PARTS; part++)
                change += weighted[part][i] * r->image[part][j];
            r->root[i][j] = r->root[j][i] = r->root[i][j] - total(change);
        }
}

/* Payoffs whose product with ||x|| is above the level: those that a coordinate may still drop. */
struct doubtful {
    int count;
    double features[DOUBTFUL][ROW] ALIGNED;
    double payoffs[DOUBTFUL];
};

/* Tests them all: sums [ROW] of what is kept; those that are settled for good go to the moments. */
static inline void test(struct doubtful *held, double root[DIM][ROW], double level, double *moments, double *sums)
{
    memset(sums, 0, ROW * sizeof *sums);
    for (int n = 0; n < held->count;) {
        double products[ROW] ALIGNED, payoff = held->payoffs[n];
        times(products, root, held->features[n]);
        for (int i = 0; i < ROW; i++)
            products[i] *= payoff;
        if (sqrt(dot(products, products)) > level) {
            for (int i = 0; i < ROW; i++)
                sums[i] += fabs(products[i]) <= level ? products[i] : 0;
            n++;
        } else {
            for (int i = 0; i < ROW; i++)
                moments[i] += payoff * held->features[n][i];
            held->count--;
            held->payoffs[n] = held->payoffs[held->count];
            memcpy(held->features[n], held->features[held->count], sizeof held->features[n]);
        }
    }
}

/* Pruned TOFU with the level [horizon] after and the radius [horizon] before each pull. No number where more payoffs
   are doubtful at a time than there is room for. */
double tofu(struct bandit bandit, double ridge, int horizon, const double *noise, const double *shifts,
            const double *weights, const double *level, const double *radius, int *played)
{
    struct design v;
    struct roots r;
    struct doubtful held;
    double moments[ROW] ALIGNED = {0}, values[SET] ALIGNED = {0}, regret = 0;
    start(&v, bandit.arms, ridge);
    start_roots(&r, ridge, shifts, weights);
    held.count = 0;
    for (int t = 0; t < horizon; t++) {
        int arm = choose(values, &v, radius[t]);
        const double *x = v.rows[arm];
        double payoff = bandit.shift[arm] + bandit.scale[arm] * noise[t];
        played[t] = arm;
        regret += bandit.gaps[arm];
        add(&v, arm);
        add_to_roots(&r, x);
        if (sqrt(v.squared[arm]) * fabs(payoff) <= level[t]) {
            for (int i = 0; i < ROW; i++)
                moments[i] += payoff * x[i];
        } else if (held.count == DOUBTFUL) {
            return NAN;
        } else {
            memcpy(held.features[held.count], x, sizeof held.features[0]);
            held.payoffs[held.count++] = payoff;
        }
        double sums[ROW] ALIGNED, settled[ROW] ALIGNED, center[ROW] ALIGNED;
        test(&held, r.root, level[t], moments, sums);
        times(settled, v.inverse, moments);
        times(center, r.root, sums);
        for (int i = 0; i < ROW; i++)
            center[i] += settled[i];
        values_of(values, &v, center);
    }
    return regret;
}

/* MENU ------------------------------------------------------------------------------------------------------------- */

enum { POINTS = (GROUPS + 15) / 16 * 16, OTHERS = GROUPS - 1 };

/* The value of this rank, from 0, in a list. The list is reordered: those before it are no larger. */
static double ranked(double *list, int count, int rank)
{
    int low = 0, high = count - 1;
    while (low < high) {
        double pivot = list[(low + high) / 2];
        int left = low, right = high;
        while (left <= right) {
            while (list[left] < pivot)
                left++;
            while (pivot < list[right])
                right--;
            if (left <= right) {
                double swapped = list[left];
                list[left++] = list[right];
                list[right--] = swapped;
            }
        }
        if (rank > right && rank < left)
            break;
        if (rank <= right)
            high = right;
        else
            low = left;
    }
    return list[rank];
}

/* The median of the distances of point j to the others */
static double median_distance(double points[DIM][POINTS], int j)
{
    double squared[POINTS] ALIGNED = {0};
    for (int i = 0; i < DIM; i++)
#pragma omp simd
        for (int s = 0; s < POINTS; s++)
            squared[s] += (points[i][s] - points[i][j]) * (points[i][s] - points[i][j]);
    squared[j] = squared[OTHERS]; /* the distance to itself is not one of them */
    double upper = ranked(squared, OTHERS, OTHERS / 2), lower = upper;
    if (OTHERS % 2 == 0) {
        lower = squared[0];
        for (int s = 1; s < OTHERS / 2; s++)
            lower = squared[s] > lower ? squared[s] : lower;
    }
    return 0.5 * (sqrt(lower) + sqrt(upper));
}

/* The point nearest to the mean [DIM] */
static int nearest(double points[DIM][POINTS], double *mean)
{
    double squared[POINTS] ALIGNED = {0};
    for (int i = 0; i < DIM; i++) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int s = 0; s < GROUPS; s++)
            sum += points[i][s];
        mean[i] = sum / GROUPS;
#pragma omp simd
        for (int s = 0; s < POINTS; s++)
            squared[s] += (points[i][s] - mean[i]) * (points[i][s] - mean[i]);
    }
    int best = 0;
    for (int s = 1; s < GROUPS; s++)
        best = squared[s] < squared[best] ? s : best;
    return best;
}

/* near [POINTS], how many others are within the bound of each point. One pass over all pairs in float32, with a margin
   for its rounding: a count is never too small. */
static void count_near(int *near, double points[DIM][POINTS], const double *mean, double bound)
{
    float scaled[DIM][POINTS] ALIGNED, halves[POINTS] ALIGNED = {0}; /* half of the squared norms */
    for (int i = 0; i < DIM; i++)
        for (int s = 0; s < POINTS; s++) {
            scaled[i][s] = (float)((points[i][s] - mean[i]) / bound);
            halves[s] += scaled[i][s] * scaled[i][s];
        }
    for (int s = 0; s < POINTS; s++) {
        halves[s] = s < GROUPS ? halves[s] * (0.5f - (DIM + 8) * 1.2e-7f) : INFINITY;
        near[s] = 0;
    }
    for (int j = 0; j < GROUPS; j++) {
        int count = 0;
#pragma omp simd reduction(+ : count)
        for (int s = j + 1; s < POINTS; s++) {
            float half = halves[s] + halves[j];
            for (int i = 0; i < DIM; i++)
                half -= scaled[i][s] * scaled[i][j];
            int within = half <= 0.5f + 1e-6f;
            near[s] += within;
            count += within;
        }
        near[j] += count;
    }
}

/* The point of the smallest median distance to the others, the lowest one on ties. The point nearest to the mean is
   nearly the best, and only those with half of the others within its median can be better. */
int center_of(double points[DIM][POINTS])
{
    double mean[DIM];
    int first = nearest(points, mean), best = first, near[POINTS];
    double bound = median_distance(points, first);
    count_near(near, points, mean, bound);
    for (int j = 0; j < GROUPS; j++) {
        if (near[j] < GROUPS / 2 || j == first)
            continue;
        double median = median_distance(points, j);
        if (median < bound || (median == bound && j < best)) {
            bound = median;
            best = j;
        }
    }
    return best;
}

/* Lower triangular factor of gram = factor factor^T, by Cholesky: ||e|| in V is the length of factor^T e */
static void factored(double factor[DIM][DIM], double gram[DIM][DIM])
{
    for (int j = 0; j < DIM; j++)
        for (int i = j; i < DIM; i++) {
            double rest = gram[i][j];
            for (int l = 0; l < j; l++)
                rest -= factor[i][l] * factor[j][l];
            factor[i][j] = i == j ? sqrt(rest) : rest / factor[j][j];
        }
}

/* MENU with the radius [epochs + 1] before each epoch; the pulls after the last whole epoch update nothing. */
double menu(struct bandit bandit, double ridge, int horizon, const double *noise, const double *radius, int *played)
{
    struct design v;
    double moments[DIM][POINTS] ALIGNED = {{0}}, estimates[DIM][POINTS] ALIGNED, points[DIM][POINTS] ALIGNED;
    double gram[DIM][DIM] = {{0}}, factor[DIM][DIM], center[DIM], values[SET] ALIGNED = {0}, regret = 0;
    start(&v, bandit.arms, ridge);
    for (int i = 0; i < DIM; i++)
        gram[i][i] = ridge;
    for (int begin = 0, n = 0; begin < horizon; begin += GROUPS, n++) {
        int arm = choose(values, &v, radius[n]), whole = begin + GROUPS <= horizon;
        int pulls = whole ? GROUPS : horizon - begin;
        const double *x = v.rows[arm];
        for (int t = begin; t < begin + pulls; t++)
            played[t] = arm;
        regret += pulls * bandit.gaps[arm];
        if (!whole)
            break;
        add(&v, arm);
        for (int i = 0; i < DIM; i++) {
#pragma omp simd
            for (int s = 0; s < GROUPS; s++)
                moments[i][s] += (bandit.shift[arm] + bandit.scale[arm] * noise[begin + s]) * x[i];
            for (int j = 0; j < DIM; j++)
                gram[i][j] += x[i] * x[j];
        }
        factored(factor, gram);
        memset(estimates, 0, sizeof estimates);
        memset(points, 0, sizeof points);
        for (int i = 0; i < DIM; i++)
            for (int j = 0; j < DIM; j++)
#pragma omp simd
                for (int s = 0; s < POINTS; s++)
                    estimates[i][s] += v.inverse[i][j] * moments[j][s];
        for (int i = 0; i < DIM; i++)
            for (int j = i; j < DIM; j++)
#pragma omp simd
                for (int s = 0; s < POINTS; s++)
                    points[i][s] += factor[j][i] * estimates[j][s];
        int best = center_of(points);
        for (int i = 0; i < DIM; i++)
            center[i] = estimates[i][best];
        values_of(values, &v, center);
    }
    return regret;
}
