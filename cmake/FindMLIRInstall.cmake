# Locates MLIR 22 and sets:
#   QTRANSPOSE_MLIR_LIB         libMLIR.so: all dialects and passes, for qtranspose-opt
#   QTRANSPOSE_LLVM_LIB         libLLVM.so
#   QTRANSPOSE_PYTHON_CAPI_LIB  libMLIRPythonCAPI.so: what the stock `mlir` Python package loads
#   QTRANSPOSE_EXTRA_RPATH      absolute library folders; only set for a user-given MLIR_DIR
#
# Without MLIR_DIR the `mlir` package of the building interpreter is used (the xtc wheels); everything is then found
# at run time through RPATHs relative to site-packages, so nothing of the build machine is recorded. With -DMLIR_DIR=
# the install may be anywhere, and its folders are recorded.

set(QTRANSPOSE_EXTRA_RPATH "")
if(MLIR_DIR)
  set(_user_mlir TRUE)
else()
  set(_user_mlir FALSE)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u; print(list(u.find_spec('mlir').submodule_search_locations)[0])"
    OUTPUT_VARIABLE _mlir_package OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE _status ERROR_QUIET)
  if(NOT _status EQUAL 0)
    message(FATAL_ERROR "No `mlir` package in ${Python_EXECUTABLE}; install requirements/build.txt or pass -DMLIR_DIR=")
  endif()
  set(MLIR_DIR ${_mlir_package}/lib/cmake/mlir)
  set(LLVM_DIR ${_mlir_package}/../llvm/lib/cmake/llvm)
endif()

find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "qtranspose needs MLIR 22; ${MLIR_DIR} is ${LLVM_VERSION_MAJOR}")
endif()
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(HandleLLVMOptions)

find_library(QTRANSPOSE_MLIR_LIB MLIR REQUIRED NO_DEFAULT_PATH PATHS ${MLIR_INSTALL_PREFIX}/lib)
find_library(QTRANSPOSE_LLVM_LIB LLVM REQUIRED NO_DEFAULT_PATH
  PATHS ${LLVM_LIBRARY_DIRS} ${MLIR_INSTALL_PREFIX}/lib ${MLIR_INSTALL_PREFIX}/../llvm/lib)
# The wheels keep the Python libraries beside lib/; an LLVM install keeps them under python_packages/.
find_library(QTRANSPOSE_PYTHON_CAPI_LIB MLIRPythonCAPI REQUIRED NO_DEFAULT_PATH
  PATHS ${MLIR_INSTALL_PREFIX}/_mlir_libs ${MLIR_INSTALL_PREFIX}/python_packages/mlir_core/mlir/_mlir_libs)

if(_user_mlir)
  foreach(_lib ${QTRANSPOSE_MLIR_LIB} ${QTRANSPOSE_LLVM_LIB} ${QTRANSPOSE_PYTHON_CAPI_LIB})
    get_filename_component(_dir ${_lib} DIRECTORY)
    list(APPEND QTRANSPOSE_EXTRA_RPATH ${_dir})
  endforeach()
  list(REMOVE_DUPLICATES QTRANSPOSE_EXTRA_RPATH)
endif()
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} at ${MLIR_INSTALL_PREFIX}")
