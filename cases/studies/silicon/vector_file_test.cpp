// The file of vectors and its import: what is right is taken, and each way to be wrong has its own words.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "cases/studies/silicon/vector_file.hpp"
#include "reference/error.hpp"

namespace assay::silicon {
namespace {

constexpr std::uint64_t kSeed = 7;

VectorFile answered(const std::string& architecture) {
  return {"a device", architecture, "1.0", kSeed, asked_of(architecture, kSeed)};
}
VectorFile reread(const std::string& text) {
  std::istringstream in(text);
  return read_vector_file(in);
}
void expect_refused(const std::string& text, const std::string& words) {
  try {
    reread(text);
    ADD_FAILURE() << "not refused: " << words;
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what() << "\n  wanted: " << words;
  }
}

TEST(VectorFile, of_the_emulated_unit_imports_for_every_architecture) {
  for (const char* architecture : {"gfx942", "gfx950", "gfx1151", "gfx1201"}) {
    const VectorFile file = answered(architecture);
    const VectorFile read = reread(vector_file_text(file));
    ASSERT_EQ(read.vectors.size(), file.vectors.size());
    EXPECT_EQ(vector_file_text(read), vector_file_text(file));
    for (const UnitAgreement& one : agreement(read)) {
      EXPECT_EQ(one.differ.size(), 0U) << one.unit->name;
      EXPECT_GE(one.vectors, 256U);
    }
  }
}

// What agrees has been told from every neighbour of its model: an answer by any of those would have differed.
TEST(VectorFile, tells_every_asked_units_model_from_its_neighbours) {
  for (const char* architecture : {"gfx942", "gfx950", "gfx1151", "gfx1201"}) {
    const std::vector<Vector> vectors = asked_of(architecture, kSeed);
    for (const Instruction* how : instructions_of(architecture)) {
      for (const Neighbour& other : neighbours(matrix_unit(how->unit))) {
        int separating = 0;
        for (const Vector& v : vectors) {
          if (v.how != how) continue;
          const Element e = element_of(v);
          separating +=
              agrees(v, other.compute({e.a, how->a_format}, {e.b, how->b_format}, static_cast<double>(e.c)))
                  ? 0
                  : 1;
        }
        EXPECT_GE(separating, 1) << how->name << " against " << other.what;
      }
    }
  }
}

TEST(VectorFile, is_refused_when_truncated_changed_or_of_another_seed) {
  const VectorFile file = answered("gfx1151");
  const std::string text = vector_file_text(file);
  const std::size_t last_line = text.rfind('\n', text.size() - 2) + 1;
  expect_refused(text.substr(0, last_line), "truncated: it holds");
  expect_refused(text.substr(0, text.size() - 4), "truncated: line");
  expect_refused(text + "one line more\n", "something was added");
  std::string flipped = text;
  const std::size_t digit = last_line - 10;  // of the last but one line's result or words
  flipped[digit] = flipped[digit] == '0' ? '1' : '0';
  expect_refused(flipped, "changed after it was written");
  VectorFile other = file;
  other.seed = kSeed + 1;
  expect_refused(vector_file_text(other),
                 fmt::format("is not what seed {} asks of rdna35_wmma_f16", kSeed + 1));
  VectorFile fewer = file;
  fewer.vectors.resize(fewer.vectors.size() / 2);
  expect_refused(vector_file_text(fewer), "questions; seed 7 asks");
  other = file;
  other.architecture = "gfx900";
  expect_refused(vector_file_text(other), "no matrix instruction of architecture 'gfx900'");
  expect_refused("assay vectors 2\n", "does not begin with");
  expect_refused("", "does not begin with");
  expect_refused("assay vectors 1\ndevice x\n", "its line 3 is not 'architecture ...'");
}

// One bit of one result, honestly signed: one vector differs, and no golden data comes of that unit.
TEST(VectorFile, with_one_bit_changed_names_the_vector) {
  VectorFile file = answered("gfx1201");
  Vector& changed = file.vectors.back();
  changed.d ^= 1;
  const VectorFile read = reread(vector_file_text(file));
  const std::vector<UnitAgreement> units = agreement(read);
  ASSERT_EQ(units.size(), 3U);
  for (const UnitAgreement& one : units)
    EXPECT_EQ(one.differ.size(), one.unit->name == "rdna4_fp8" ? 1U : 0U);
  EXPECT_EQ(vector_line(units.back().differ.at(0)), vector_line(changed));
  const std::string golden = golden_text(read, units);
  EXPECT_NE(golden.find("rdna4_wmma_f16;"), std::string::npos);
  EXPECT_EQ(golden.find("rdna4_wmma_fp8"), std::string::npos);
  std::istringstream in(golden);
  EXPECT_EQ(read_vectors(in).size(), units[0].vectors + units[1].vectors);
}

// A device that is a neighbour of the assumed model: the fit names it.
TEST(VectorFile, from_another_model_is_fitted_by_that_model) {
  VectorFile file = answered("gfx1151");
  MatrixUnit real = matrix_unit("rdna35_f16");
  ++real.fraction_bits;
  for (Vector& v : file.vectors) v.d = accumulator_code(*v.how, static_cast<float>(model_result(v, real)));
  const std::vector<UnitAgreement> units = agreement(reread(vector_file_text(file)));
  ASSERT_EQ(units.size(), 1U);
  EXPECT_GT(units[0].differ.size(), 0U);
  EXPECT_EQ(units[0].fits.at(0).model, "F+1");
  EXPECT_EQ(units[0].fits.at(0).differ, 0U);
  EXPECT_GT(units[0].fits.at(1).differ, 0U);
}

TEST(VectorFile, moves_one_row_of_the_units_and_nothing_else) {
  std::ifstream in(ASSAY_SOURCE_DIR "/reference/arithmetic/matrix_unit.cpp");
  std::ostringstream text;
  text << in.rdbuf();
  const std::string code = text.str();
  for (const MatrixUnit& unit : matrix_units()) {
    const std::string moved = with_standing_silicon(code, unit.name, "X: golden");
    if (unit.standing == Standing::silicon) {
      EXPECT_EQ(moved, code) << unit.name;
      continue;
    }
    const std::size_t at = code.find(fmt::format("{{\"{}\",", unit.name));
    EXPECT_EQ(moved.substr(0, at), code.substr(0, at));
    const std::size_t end = code.find('\n', at), moved_end = moved.find('\n', at);
    EXPECT_EQ(moved.substr(moved_end), code.substr(end));
    EXPECT_NE(moved.substr(at, moved_end - at).find("silicon,    \"X: golden\""), std::string::npos)
        << unit.name;
  }
  EXPECT_THROW(with_standing_silicon(code, "rdna9_f16", "X"), InputError);
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// By the program: golden data and standing of the units that agree, exit 1 and neither for the unit that does
// not.
TEST(VectorFile, imported_by_the_program_moves_the_units_that_agree) {
  const std::string folder = testing::TempDir() + fmt::format("vectors_import_{}", getpid());
  std::filesystem::create_directories(folder);
  VectorFile file = answered("gfx1201");
  for (const bool right : {true, false}) {
    if (!right) file.vectors.back().d ^= 1;
    std::ofstream(folder + "/one.vectors") << vector_file_text(file);
    const std::string units = folder + "/matrix_unit.cpp", golden = folder + "/gfx1201_silicon.csv";
    std::filesystem::copy_file(ASSAY_SOURCE_DIR "/reference/arithmetic/matrix_unit.cpp", units,
                               std::filesystem::copy_options::overwrite_existing);
    const std::string command = fmt::format("{} --import {}/one.vectors --golden {} --apply {} > {}/said",
                                            ASSAY_VECTORS, folder, golden, units, folder);
    const int status = std::system(command.c_str());
    EXPECT_EQ(WEXITSTATUS(status), right ? 0 : 1) << text_of(folder + "/said");
    std::string wanted = text_of(ASSAY_SOURCE_DIR "/reference/arithmetic/matrix_unit.cpp");
    for (const char* unit : {"rdna4_f16", "rdna4_bf16", "rdna4_fp8"}) {
      if (!right && unit == std::string("rdna4_fp8")) continue;
      if (matrix_unit(unit).standing == Standing::silicon) continue;
      wanted =
          with_standing_silicon(wanted, unit, "a device: reference/golden/arithmetic/gfx1201_silicon.csv");
    }
    EXPECT_EQ(text_of(units), wanted);
    EXPECT_NE(text_of(folder + "/said").find("standing assumed -> silicon"), std::string::npos);
    EXPECT_EQ(text_of(golden).find("rdna4_wmma_fp8") != std::string::npos, right);
  }
  std::filesystem::remove_all(folder);
}

// Every file of golden data that silicon gave is what the models give, and every unit of that standing has
// one.
TEST(GoldenVectors, stand_behind_every_unit_of_standing_silicon) {
  std::set<std::string_view> shown;
  for (const auto& entry :
       std::filesystem::directory_iterator(ASSAY_SOURCE_DIR "/reference/golden/arithmetic")) {
    if (!entry.path().filename().string().ends_with("_silicon.csv")) continue;
    std::ifstream in(entry.path());
    for (const Vector& v : read_vectors(in)) {
      shown.insert(v.how->unit);
      EXPECT_TRUE(agrees(v, model_result(v, matrix_unit(v.how->unit))))
          << entry.path() << ": " << vector_line(v);
    }
  }
  for (const MatrixUnit& unit : matrix_units()) {
    if (unit.standing == Standing::silicon) {
      EXPECT_TRUE(shown.contains(unit.name)) << unit.name;
    }
  }
}

}  // namespace
}  // namespace assay::silicon
