// One step of the engine: rows of every active request through all layers, then the next tokens.
#include <algorithm>
#include <cmath>

#include "cases/studies/cascade/engine_state.hpp"

namespace assay::scenarios {
namespace {

// H x / sqrt(8), in place; signs first, so that it is a rotation and no reflection of constants onto one
// axis.
void hadamard8(float* x) {
  x[1] = -x[1];
  x[6] = -x[6];
  for (int half = 1; half < 8; half *= 2)
    for (int i = 0; i < 8; ++i)
      if ((i & half) == 0) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
  for (int i = 0; i < 8; ++i) x[i] *= 0.35355339F;
}

}  // namespace

void Engine::step() {
  rows_.clear();
  chunks_.clear();
  for (std::size_t i = 0; i < active_.size(); ++i) {
    Active& a = active_[i];
    const int left = static_cast<int>(a.tokens.size()) - a.position;
    const int take = std::min(left, s_.page - a.position % s_.page);
    Chunk c{i, static_cast<int>(rows_.size()), take, {}};
    for (int t = 0; t < take; ++t) {
      const int position = a.position + t;
      if (position / s_.page >= static_cast<int>(a.pages.size())) a.pages.push_back(pages_.allocate());
      const int page = a.pages[static_cast<std::size_t>(position / s_.page)];
      pages_[page].writer = a.index;
      pages_[page].rotated = rotated_;
      c.slots.push_back(page * s_.page + position % s_.page);
      rows_.push_back({a.index, position, a.tokens[static_cast<std::size_t>(position)]});
    }
    chunks_.push_back(std::move(c));
  }
  const int n = static_cast<int>(rows_.size());
  const std::size_t width = static_cast<std::size_t>(shape_.width),
                    kv = static_cast<std::size_t>(shape_.kv());
  x_.resize(n * width);
  for (int r = 0; r < n; ++r)
    std::copy_n(model_.embedding.data() + static_cast<std::size_t>(rows_[r].token) * width, width,
                x_.data() + r * width);
  std::vector<float> normal(x_.size()), qkv(n * 3 * kv), mixed(n * kv), subnormal(n * kv), add(x_.size()),
      hidden(static_cast<std::size_t>(n) * shape_.hidden);
  for (int l = 0; l < shape_.layers; ++l) {
    const LayerWeights& w = model_.layers[static_cast<std::size_t>(l)];
    const std::vector<float> before = x_;
    norm(l, "norm", x_, n, shape_.width, normal);
    math_.matmul(normal, w.qkv, n, 3 * shape_.kv(), shape_.width, qkv);
    watch([&](Monitors& m) { m.projection(l, rows_, normal, qkv); });
    record("qkv", l, qkv);
    for (Chunk& c : chunks_) write_and_attend(l, c, qkv, mixed);
    if (s_.record) record_cache(l);
    record("attention", l, mixed);
    norm(l, "subnorm", mixed, n, shape_.kv(), subnormal);
    math_.matmul(subnormal, w.out, n, shape_.width, shape_.kv(), add);
    watch([&](Monitors& m) { m.stage(l, "out", rows_, subnormal, add); });
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += add[i];
    watch([&](Monitors& m) { m.residual(l, rows_, before, x_); });
    record("residual", l, x_);
    norm(l, "mlp_norm", x_, n, shape_.width, normal);
    const bool misread = l == 0 && repacked_ && s_.defects.old_reader;
    if (misread)
      watch([&](Monitors& m) {
        m.note(Watch::layout_mismatch, l, rows_[0].position, rows_[0].request, 8,
               "up-projection is stored in tiles of 8 with halves interleaved and read in order");
      });
    math_.matmul(normal, misread ? reordered_ : w.up, n, shape_.hidden, shape_.width, hidden);
    for (float& h : hidden) h = h < 0 ? 0.0F : h;  // NaN stays NaN
    math_.matmul(hidden, w.down, n, shape_.width, shape_.hidden, add);
    watch([&](Monitors& m) { m.stage(l, "mlp", rows_, normal, add); });
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += add[i];
    record("mlp", l, x_);
  }
  for (const Chunk& c : chunks_) {
    Active& a = active_[c.active];
    a.position += c.rows;
    for (std::size_t t = 0; t < c.slots.size(); ++t) {
      auto& page = pages_[c.slots[t] / s_.page];
      page.written = std::max(page.written, c.slots[t] % s_.page + 1);
      for (int l = 0; l < shape_.layers; ++l)
        page.nan = page.nan || k_[l].slot_has_nan(c.slots[t]) || v_[l].slot_has_nan(c.slots[t]);
    }
    commit(a);
  }
  continue_answers();
}

void Engine::norm(int l, std::string_view stage, const std::vector<float>& x, int rows, int cols,
                  std::vector<float>& y) {
  if (s_.norm == NormKind::rmsnorm)
    math_.rmsnorm(x, rows, cols, shape_.eps, y);
  else
    math_.layernorm(x, rows, cols, shape_.eps, y);
  watch([&](Monitors& m) {
    if (s_.norm == NormKind::layernorm)
      m.norm(l, stage, rows_, x, y, shape_.eps);
    else
      m.stage(l, stage, rows_, x, y);
  });
  record(stage, l, y);
}

void Engine::write_side(int l, char name, KvStore& store, const Chunk& c, std::span<const float> x,
                        float& request_absmax) {
  const Active& a = active_[c.active];
  const float top = finite_absmax(x);
  const bool waits = s_.policy == Policy::locked || s_.policy == Policy::locked_dummy ||
                     s_.policy == Policy::locked_zero || s_.policy == Policy::diverging ||
                     s_.policy == Policy::split;
  const bool locks = waits && !store.is_locked();
  if (locks)
    store.lock({top}, a.index < 0 ? lock_origin_ : top == 0 ? Origin::zero_request : Origin::first_request);
  if (request_absmax == 0) request_absmax = top;
  const Written w = store.write(math_, x, c.slots, request_absmax);
  watch([&](Monitors& m) {
    if (locks && s_.policy != Policy::split) m.locked(l, name, a.index, w.scale[0], store.origin());
    m.write(l, name, std::span(rows_).subspan(static_cast<std::size_t>(c.first_row), c.rows), x, w.codes,
            w.scale, s_.policy == Policy::per_head, store.origin());
  });
}

void Engine::write_and_attend(int l, const Chunk& c, const std::vector<float>& qkv,
                              std::vector<float>& mixed) {
  Active& a = active_[c.active];
  const std::size_t kv = static_cast<std::size_t>(shape_.kv());
  std::vector<float> q, k, v;
  for (int t = 0; t < c.rows; ++t) {
    const float* row = qkv.data() + (static_cast<std::size_t>(c.first_row) + t) * 3 * kv;
    q.insert(q.end(), row, row + kv);
    k.insert(k.end(), row + kv, row + 2 * kv);
    v.insert(v.end(), row + 2 * kv, row + 3 * kv);
  }
  if (rotated_)
    for (auto* side : {&q, &k})
      for (std::size_t i = 0; i < side->size(); i += static_cast<std::size_t>(shape_.d))
        hadamard8(side->data() + i);
  a.ranges.resize(static_cast<std::size_t>(shape_.layers));
  write_side(l, 'K', k_[l], c, k, a.ranges[static_cast<std::size_t>(l)].first);
  write_side(l, 'V', v_[l], c, v, a.ranges[static_cast<std::size_t>(l)].second);
  const int length = a.position + c.rows;
  std::vector<std::int32_t> table(a.pages.begin(), a.pages.begin() + (length + s_.page - 1) / s_.page);
  int bad = 0, first = -1;
  watch([&](Monitors& m) {
    for (int j = 0; j < length; ++j) {
      const int page = table[static_cast<std::size_t>(j / s_.page)], slot = page * s_.page + j % s_.page;
      if (!k_[l].slot_has_nan(slot) && !v_[l].slot_has_nan(slot)) continue;
      if (first < 0) first = j;
      ++bad;
      const int writer = pages_[page].writer;
      if (writer != a.index && inherited_.insert({a.index, page}).second)
        m.inherited(l, a.index, page, writer);
    }
  });
  std::vector<float> host_copy;
  if (s_.policy == Policy::diverging) host_copy = {1.0F};  // never refreshed
  const KvView k_view = k_[l].view(host_copy), v_view = v_[l].view(host_copy);
  watch([&](Monitors& m) {
    const Row& row = rows_[static_cast<std::size_t>(c.first_row)];
    m.read(l, 'K', row, k_[l].scale(), k_view.scale);
    m.read(l, 'V', row, v_[l].scale(), v_view.scale);
  });
  std::vector<float> out(static_cast<std::size_t>(c.rows) * kv);
  math_.attention({c.rows, length, shape_.heads, shape_.d, s_.page, s_.pages, q, k_view, v_view, table}, out);
  if (null_page_ >= 0)
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] += 0.0F * v_[l].value(null_page_ * s_.page, static_cast<int>(i % kv));
  if (s_.defects.whole_pages)
    for (int j = length; j < static_cast<int>(table.size()) * s_.page; ++j)
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] += 0.0F * v_[l].value(table[static_cast<std::size_t>(j / s_.page)] * s_.page + j % s_.page,
                                     static_cast<int>(i % kv));
  std::copy(out.begin(), out.end(),
            mixed.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(c.first_row) * kv));
  watch([&](Monitors& m) {
    m.attention(l, std::span(rows_).subspan(static_cast<std::size_t>(c.first_row), c.rows), q, bad, first,
                length, out, shape_.heads);
  });
}

void Engine::continue_answers() {
  const std::size_t width = static_cast<std::size_t>(shape_.width),
                    vocabulary = static_cast<std::size_t>(shape_.vocabulary);
  std::vector<float> last;
  std::vector<Row> rows;
  std::vector<Active*> owners;
  for (const Chunk& c : chunks_) {
    Active& a = active_[c.active];
    if (a.index < 0 || a.position < static_cast<int>(a.tokens.size())) continue;
    const auto at = x_.begin() +
                    static_cast<std::ptrdiff_t>((static_cast<std::size_t>(c.first_row) + c.rows - 1) * width);
    last.insert(last.end(), at, at + static_cast<std::ptrdiff_t>(width));
    rows.push_back(rows_[static_cast<std::size_t>(c.first_row + c.rows - 1)]);
    owners.push_back(&a);
  }
  if (owners.empty()) return;
  const int n = static_cast<int>(owners.size());
  std::vector<float> normal(last.size()), logits(owners.size() * vocabulary);
  std::swap(rows, rows_);
  norm(shape_.layers, "final_norm", last, n, shape_.width, normal);
  math_.matmul(normal, model_.unembedding, n, shape_.vocabulary, shape_.width, logits);
  record("logits", shape_.layers, logits);
  std::vector<std::int32_t> chosen(owners.size());
  math_.argmax(logits, n, shape_.vocabulary, s_.checked_argmax, chosen);
  for (int i = 0; i < n; ++i) {
    Active& a = *owners[static_cast<std::size_t>(i)];
    Answer& answer = run_.answers[static_cast<std::size_t>(a.index)];
    answer.logits.assign(logits.begin() + static_cast<std::ptrdiff_t>(i * vocabulary),
                         logits.begin() + static_cast<std::ptrdiff_t>((i + 1) * vocabulary));
    if (answer.tokens.empty()) watch([&](Monitors& m) { m.prompt_done(a.index); });
    if (chosen[i] < 0) {
      answer.aborted = true;
      continue;
    }
    int token = chosen[i];
    if (forced_) token = (*forced_)[static_cast<std::size_t>(a.index)].at(answer.tokens.size());
    answer.tokens.push_back(token);
    a.tokens.push_back(token);
  }
  std::vector<std::int32_t> counted = chosen;
  watch([&](Monitors& m) {
    if (!s_.checked_argmax) m.logits(rows_, logits, counted);
  });
  std::swap(rows, rows_);
}

void Engine::record_cache(int l) {
  const std::size_t kv = static_cast<std::size_t>(shape_.kv());
  std::vector<float> stored(rows_.size() * 2 * kv);
  for (const Chunk& c : chunks_)
    for (std::size_t t = 0; t < c.slots.size(); ++t)
      for (std::size_t i = 0; i < kv; ++i) {
        float* row = stored.data() + (static_cast<std::size_t>(c.first_row) + t) * 2 * kv;
        row[i] = k_[l].value(c.slots[t], static_cast<int>(i));
        row[kv + i] = v_[l].value(c.slots[t], static_cast<int>(i));
      }
  record("cache", l, stored);
}

void Engine::record(std::string_view stage, int layer, const std::vector<float>& values) {
  if (s_.record) run_.stages.push_back({std::string(stage), run_.steps, layer, rows_, values});
}

}  // namespace assay::scenarios
